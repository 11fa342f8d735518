/* commands.h: the subcommands, one file each (cmd_*.c); main.c holds the table. */
#ifndef SPSH_COMMANDS_H
#define SPSH_COMMANDS_H

/* Each takes argv with its own name in front and returns the exit status. */
int spsh__cmd_pack(int argc, char **argv);
int spsh__cmd_info(int argc, char **argv);
int spsh__cmd_ls(int argc, char **argv);
int spsh__cmd_cat(int argc, char **argv);
int spsh__cmd_verify(int argc, char **argv);
int spsh__cmd_repair(int argc, char **argv);
int spsh__cmd_export(int argc, char **argv);
int spsh__cmd_overlay(int argc, char **argv);
int spsh__cmd_plan(int argc, char **argv);
int spsh__cmd_bench(int argc, char **argv);
int spsh__cmd_featgen(int argc, char **argv);
int spsh__cmd_fingerprint(int argc, char **argv);
int spsh__cmd_apply(int argc, char **argv);
int spsh__cmd_revert(int argc, char **argv);
int spsh__cmd_dedupe(int argc, char **argv);
int spsh__cmd_audit(int argc, char **argv);
int spsh__cmd_explain(int argc, char **argv);
int spsh__cmd_train(int argc, char **argv);
int spsh__cmd_eval(int argc, char **argv);
int spsh__cmd_transcribe(int argc, char **argv);
int spsh__cmd_report(int argc, char **argv);
int spsh__cmd_env(int argc, char **argv);

#endif
