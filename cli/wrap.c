/* Text in lines that fit the terminal; see wrap.h. */
#include "cli/wrap.h"

#include <limits.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/terminal.h"

int cli_wrap_columns(void)
{
        int columns, lines;

        if (!cli_on_terminal())
                return INT_MAX;
        cli_terminal_size(&columns, &lines);
        return columns;
}

/* The end of the word at @text: a space, but none in brackets. */
static const char *wrap_word_end(const char *text)
{
        int depth = 0;

        for (; *text != '\0' && *text != '\n' && (*text != ' ' || depth > 0); text++)
                depth += (*text == '[') - (*text == ']');
        return text;
}

void cli_wrap_words(FILE *to, const char *text, int at, int indent, int columns)
{
        while (*text != '\0') {
                const char *end = wrap_word_end(text);
                int len = (int)(end - text);

                if (at > indent && at + 1 + len > columns) {
                        fprintf(to, "\n%*s", indent, "");
                        at = indent;
                }
                at += fprintf(to, "%s%.*s", at > indent ? " " : "", len, text);
                if (*end == '\n') {
                        fputc('\n', to);
                        at = 0;
                }
                text = end + (*end != '\0');
        }
        fputc('\n', to);
}

void cli_wrap_lines(const char *text, int indent)
{
        int columns = cli_wrap_columns();

        for (; *text != '\0'; text += strcspn(text, "\n") + 1) {
                int len = (int)strcspn(text, "\n");
                char line[1024];

                if (len <= columns || len <= indent || len >= (int)sizeof(line)) {
                        printf("%.*s\n", len, text);
                        continue;
                }
                snprintf(line, sizeof(line), "%.*s", len, text);
                printf("%.*s", indent, line);
                cli_wrap_words(stdout, line + indent, indent, indent, columns);
        }
}
