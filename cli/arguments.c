/*
 * Reading a command line: options may stand before or behind the command; `--` ends them. What
 * stands behind `start` is handed on to agentd as it is.
 */
#include <stdint.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/near.h"

/* An option and what it sets in struct cli: @flag, or @value to the word behind it. */
struct option {
        const char *name;
        bool *flag;
        const char **value;
};

#define GLOBAL_COUNT 7 /* the first options belong to all commands */
#define OPTION_COUNT 31

static void arguments_list_options(
        struct cli *cli, const char **output, struct option ret_options[static OPTION_COUNT])
{
        const struct option options[] = {
                {"b", NULL, &cli->bus},
                {"bus", NULL, &cli->bus},
                {"o", NULL, output},
                {"output", NULL, output},
                {"base64", &cli->base64, NULL},
                {"h", &cli->help, NULL},
                {"help", &cli->help, NULL},
                {"if-absent", &cli->if_absent, NULL},
                {"if-rev", NULL, &cli->if_rev},
                {"if-value", NULL, &cli->if_value},
                {"ttl", NULL, &cli->ttl},
                {"durability", NULL, &cli->durability},
                {"rev", &cli->rev, NULL},
                {"at", NULL, &cli->at},
                {"values", &cli->values, NULL},
                {"full", &cli->full, NULL},
                {"reverse", &cli->reverse, NULL},
                {"limit", NULL, &cli->limit},
                {"kill", &cli->kill, NULL},
                {"pid", NULL, &cli->pid},
                {"drop", &cli->drop, NULL},
                {"prefix", &cli->prefix, NULL},
                {"txn", &cli->txn_wanted, NULL},
                {"after", NULL, &cli->after},
                {"count", NULL, &cli->count},
                {"timeout", NULL, &cli->timeout},
                {"exec", NULL, &cli->exec},
                {"until", NULL, &cli->until},
                {"once", &cli->once, NULL},
                {"entries", &cli->entries, NULL},
                {"from", NULL, &cli->from},
        };

        _Static_assert(sizeof(options) == OPTION_COUNT * sizeof(options[0]), "all options");
        memcpy(ret_options, options, sizeof(options));
}

static bool arguments_command_takes(const struct cli_command *command, const char *name)
{
        size_t len = strlen(name);

        for (const char *p = command->options; (p = strstr(p, name)); p += len)
                if ((p == command->options || p[-1] == ' ') && p[len] == ' ')
                        return true;
        return false;
}

static bool arguments_allowed(
        const struct cli_command *command, const struct option *options, size_t index)
{
        return index < GLOBAL_COUNT ||
               (command && arguments_command_takes(command, options[index].name));
}

/* Say that @word, with @len bytes of name at @name, is no option here, and which one is near.
 * Return: CLI_USAGE. */
static int arguments_no_option(const struct cli_command *command, const struct option *options,
        const char *word, const char *name, size_t len)
{
        const char *behind = command ? command->name : "", *colon = command ? ": " : "";
        size_t least = SIZE_MAX, nearest = 0;

        for (size_t i = 0; i < OPTION_COUNT; i++) {
                size_t distance = cli_distance(name, len, options[i].name);

                if (distance < least && arguments_allowed(command, options, i)) {
                        least = distance;
                        nearest = i;
                }
        }
        if (least != SIZE_MAX)
                return cli_usage("%s%sthere is no option '%s'; did you mean '-%s%s'?", behind,
                        colon, cli_word(word), strlen(options[nearest].name) > 1 ? "-" : "",
                        options[nearest].name);
        return cli_usage("%s%sthere is no option '%s'%s", behind, colon, cli_word(word),
                command ? " (put -- before a word that begins with -)" : "");
}

/* Read the option at argv[*index], with the value that stands behind it or after a =. */
static int arguments_read_option(
        struct cli *cli, const struct cli_command *command, int argc, char **argv, int *index)
{
        const char *output = NULL;
        struct option options[OPTION_COUNT];
        const char *word = argv[*index], *name = word + (word[1] == '-' ? 2 : 1),
                   *equals = strchr(name, '=');
        size_t len = equals ? (size_t)(equals - name) : strlen(name);

        arguments_list_options(cli, &output, options);
        for (size_t i = 0; i < OPTION_COUNT; i++) {
                const struct option *option = &options[i];

                if (strlen(option->name) != len || strncmp(option->name, name, len) != 0 ||
                        (len == 1) != (word[1] != '-') || !arguments_allowed(command, options, i))
                        continue;
                if (option->flag) {
                        if (equals)
                                return cli_usage("%.*s takes no value", (int)(len + 2), word);
                        *option->flag = true;
                        return 0;
                }
                if (!equals && *index + 1 >= argc)
                        return cli_usage("%s wants a value behind it", word);
                *option->value = equals ? equals + 1 : argv[++*index];
                if (!output)
                        return 0;
                cli->json = strcmp(output, "json") == 0;
                return cli->json || strcmp(output, "text") == 0
                               ? 0
                               : cli_usage("-o wants text or json, not '%s'", output);
        }
        return arguments_no_option(command, options, word, name, len);
}

/* Negative numbers and a lone - are operands, not options. */
static bool arguments_is_option(const char *word)
{
        return word[0] == '-' && word[1] != '\0' && !(word[1] >= '0' && word[1] <= '9');
}

int cli_read_arguments(
        struct cli *cli, int argc, char **argv, const struct cli_command **ret_command)
{
        const struct cli_command *command = NULL;
        bool options_end = false;
        int r;

        cli->operands = argv;
        for (int i = 1; i < argc; i++) {
                if (!options_end && strcmp(argv[i], "--") == 0) {
                        options_end = true;
                } else if (!options_end && arguments_is_option(argv[i])) {
                        if (!command && strcmp(argv[i], "--version") == 0) {
                                command = cli_find_command("version");
                                continue;
                        }
                        r = arguments_read_option(cli, command, argc, argv, &i);
                        if (r != 0)
                                return r;
                } else if (!command) {
                        command = cli_find_command(argv[i]);
                        if (!command)
                                return cli_no_command(argv[i]);
                        if (command->run == cli_start &&
                                !(i + 1 < argc && strcmp(argv[i + 1], "--help") == 0)) {
                                cli->operands = argv + i + 1;
                                cli->operand_count = argc - i - 1;
                                break;
                        }
                } else {
                        cli->operands[cli->operand_count++] = argv[i];
                }
        }
        *ret_command = command;
        return 0;
}
