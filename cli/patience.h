/*
 * A word about a write that waits long for the disk: once, after two seconds, and the write goes
 * on waiting.
 *
 * The wait is inside the library, and a signal would end it. So a thread looks at the bus now and
 * then, and says the line.
 *
 * Always true: behind cli_patience_end() the thread touches no bus.
 */
#ifndef SB_CLI_PATIENCE_H
#define SB_CLI_PATIENCE_H

struct cli;
struct sb_bus;

/* cli_open() for a command that writes. */
int cli_open_to_write(struct cli *cli, struct sb_bus **ret_bus);
/* Call this before the bus is closed. */
void cli_patience_end(void);

#endif
