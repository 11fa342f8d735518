/* commands.h: the subcommands, one file each (cmd_*.c). */
#ifndef SPSH_COMMANDS_H
#define SPSH_COMMANDS_H

/* The subcommands, in the order in which a user meets them. */
/* clang-format off */
#define SPSH_COMMANDS(X_) \
    X_(pack, "pack speech corpora into a dataset") \
    X_(info, "show what a dataset holds") \
    X_(ls, "list the utterances") \
    X_(cat, "write one utterance as a WAV file") \
    X_(verify, "check every byte of a dataset") \
    X_(repair, "rebuild what can be rebuilt, save what is intact") \
    X_(export, "write the utterances in a form that other programs read") \
    X_(overlay, "edit a dataset without touching what is sealed") \
    X_(plan, "show what training with given options will be like") \
    X_(bench, "measure how fast a dataset loads on this machine") \
    X_(featgen, "make a dataset of features, or statistics of them") \
    X_(fingerprint, "make what copies are found by") \
    X_(dedupe, "find copies, in one dataset or over several") \
    X_(audit, "find what leaks from training into test sets") \
    X_(apply, "leave out the copies that a plan of dedupe drops") \
    X_(revert, "undo apply: the view before it, exactly") \
    X_(explain, "say why two utterances are copies, or are not") \
    X_(train, "train a recogniser on packed speech") \
    X_(eval, "measure how often a trained model is wrong") \
    X_(transcribe, "write down what a trained model hears") \
    X_(report, "draw a training run: curves, error rates, examples") \
    X_(env, "show which processes would train together")
/* clang-format on */

/* Each takes argv with its own name in front and returns the exit status. */
#define SPSH_COMMAND_DECLARE(name_, summary_) int spsh__cmd_##name_(int argc, char **argv);
SPSH_COMMANDS(SPSH_COMMAND_DECLARE)
#undef SPSH_COMMAND_DECLARE

#endif
