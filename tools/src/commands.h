/* commands.h: the subcommands, one file each (cmd_*.c). */
#ifndef SPSH_COMMANDS_H
#define SPSH_COMMANDS_H

/* The subcommands, in the order in which a user needs them. */
/* clang-format off */
#define SPSH_COMMANDS(X_) \
    X_(pack, "pack speech corpora into a dataset") \
    X_(merge, "publish a dataset that was packed in parts") \
    X_(info, "describe a dataset") \
    X_(ls, "list the utterances") \
    X_(cat, "write one utterance as a WAV file") \
    X_(verify, "check every byte of a dataset") \
    X_(repair, "rebuild derived parts and save intact recordings") \
    X_(export, "write the utterances in a form that other programs read") \
    X_(overlay, "edit a dataset without changing its sealed files") \
    X_(plan, "predict training with given options") \
    X_(bench, "measure how fast a dataset loads on this machine") \
    X_(featgen, "make a dataset of features, or statistics of them") \
    X_(fingerprint, "compute the fingerprints that find copies") \
    X_(dedupe, "find copies, in one dataset or across several") \
    X_(audit, "find test data in the training data") \
    X_(apply, "skip the copies that a plan of dedupe drops") \
    X_(revert, "undo apply and restore the exact previous view") \
    X_(explain, "explain why two utterances are copies, or are not") \
    X_(train, "train a recognizer on packed speech") \
    X_(eval, "measure the error rates of a trained model") \
    X_(transcribe, "transcribe audio with a trained model") \
    X_(report, "write a page about a run: curves, error rates, cost") \
    X_(env, "show the processes that would train together")
/* clang-format on */

/* Each function takes argv with its own name first and returns the exit status. */
#define SPSH_COMMAND_DECLARE(name_, summary_) int spsh__cmd_##name_(int argc, char **argv);
SPSH_COMMANDS(SPSH_COMMAND_DECLARE)
#undef SPSH_COMMAND_DECLARE

#endif
