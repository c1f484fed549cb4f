/* What a start says about commands that did not do what was meant; see wal-operator.h. */
#define _GNU_SOURCE
#include "agentd/wal/wal-operator.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agentd/log.h"
#include "ring/wal/wal-file.h"

void sb_wal_operator_say_too_old(const struct sb_config *config)
{
        sb_log("--recover-to %" PRIu64
               ": the log in %s has no batch that is so old: `agentctl log` lists their cuts; "
               "nothing is done",
                config->recover_to, config->place.directory);
}

void sb_wal_operator_say_unreached(const struct sb_config *config, uint64_t last_cut)
{
        const char *directory = config->place.directory;

        if (config->recover_to <= last_cut)
                return;
        if (last_cut)
                sb_log("--recover-to %" PRIu64
                       ": the log in %s was never at that cut; it ends with cut %" PRIu64
                       ", and all of it is brought back",
                        config->recover_to, directory, last_cut);
        else
                sb_log("--recover-to %" PRIu64 ": there is no log in %s, and the bus begins empty",
                        config->recover_to, directory);
}

void sb_wal_operator_say_gone(const struct sb_config *config)
{
        sb_log("there is no log in %s, where an agentd has kept one (" SB_PLACE_WRITER
               " is there): the bus begins empty. If its files wal-* were not moved away on "
               "purpose, stop agentd, and bring them back, or a backup",
                config->place.directory);
}

/* Whether it is the name under which agentctl writes a file of a log (cli/partial.h). */
static bool wal_operator_is_partial(const char *name)
{
        static const char begin[] = "wal-", end[] = ".partial";
        size_t len = strlen(name);

        return len > sizeof(begin) + sizeof(end) - 2 && !strncmp(name, begin, sizeof(begin) - 1) &&
               !strcmp(name + len - (sizeof(end) - 1), end);
}

bool sb_wal_operator_finds_partial(const struct sb_config *config, int directory_fd)
{
        int copy = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *stream = copy >= 0 ? fdopendir(copy) : NULL;
        const char *directory = config->place.directory;
        char word[SB_PLACE_WORD_MAX];
        struct dirent *entry;
        bool found = false;

        if (!stream) {
                if (copy >= 0)
                        close(copy);
                return false;
        }
        while (!found && (entry = readdir(stream))) {
                found = wal_operator_is_partial(entry->d_name);
                if (found)
                        sb_log("%s has no log, and the file %s, which a restore-from or a backup "
                               "left that was killed: nothing of it can be brought back, and "
                               "nothing is done. `agentctl -b %s restore-from BACKUP` does it "
                               "anew; "
                               "for an empty bus, remove the file",
                                directory, entry->d_name, sb_place_word(directory, word));
        }
        closedir(stream);
        return found;
}

void sb_wal_operator_say_damaged(
        const struct sb_config *config, const struct sb_wal_end *end, bool is_whole)
{
        const char *directory = config->place.directory;
        char name[SB_WAL_FILE_NAME_MAX], size_text[32], word[SB_PLACE_WORD_MAX];
        char from[SB_WAL_FILE_NAME_MAX], to[SB_WAL_FILE_NAME_MAX];

        sb_wal_file_name(end->file, name);
        sb_wal_file_name(end->renamed_from, from);
        sb_wal_file_name(end->renamed_to, to);
        if (end->renamed_from)
                sb_log("the log in %s is damaged in %s at byte %" PRIu64
                       ": %s. By its header %s is %s, and no file has that name: rename it back, "
                       "and start agentd again; nothing is done",
                        directory, name, end->offset, end->what, to, from);
        else if (!end->cut)
                sb_log("the log in %s is damaged in %s at byte %" PRIu64
                       ", in its first batch: %s. Nothing of it can be brought back; bring the "
                       "file back, or a backup; nothing is done",
                        directory, name, end->offset, end->what);
        else if (!is_whole)
                sb_log("the log in %s is damaged in %s at byte %" PRIu64
                       ": %s. What it has before does not have the whole bus, so there is no cut "
                       "to go on from: bring the files back, or a backup; nothing is done",
                        directory, name, end->offset, end->what);
        else
                sb_log("the log in %s is damaged in %s at byte %" PRIu64
                       ": %s. This is no power failure, so nothing is done. What it has before is "
                       "whole up to cut %" PRIu64 "; to go on from there, and lose what came "
                       "later: `agentd -b %s --size %s --durability %s --recover-to %" PRIu64 "`",
                        directory, name, end->offset, end->what, end->cut,
                        sb_place_word(directory, word),
                        sb_config_size_words(config->size, size_text),
                        config->mode == SB_LOG_STRICT ? "strict" : "batched", end->cut);
}

void sb_wal_operator_say_headless(const struct sb_config *config, const struct sb_wal_end *end)
{
        const char *directory = config->place.directory;
        char name[SB_WAL_FILE_NAME_MAX];

        sb_wal_file_name(end->passed_file, name);
        if (config->recover_to && config->recover_to <= end->cut && end->first_sequence)
                sb_log("the log in %s does not go back to cut %" PRIu64
                       ": it begins with batch %" PRIu64
                       ", and the whole bus is in it later only; a backup may. Nothing is done",
                        directory, config->recover_to, end->first_sequence);
        else if (config->recover_to && config->recover_to <= end->cut)
                sb_log("the log in %s does not go back to cut %" PRIu64
                       ": it has no batch; a backup may. Nothing is done",
                        directory, config->recover_to);
        else if (end->passed)
                sb_log("the log in %s is damaged in %s at byte %" PRIu64
                       ", in the only copy of the bus that it has: bring the file back, or a "
                       "backup; nothing is done",
                        directory, name, end->passed_offset);
        else if (end->first_sequence)
                sb_log("the log in %s begins with batch %" PRIu64
                       ", and does not have the whole bus from there on: files are missing in "
                       "front. Bring them back, or a backup; nothing is done",
                        directory, end->first_sequence);
        else
                sb_log("the log in %s has no batch, and its first file says that batch %" PRIu64
                       " was before it: files are missing in front. Bring them back, or a backup; "
                       "nothing is done",
                        directory, end->sequence);
}

void sb_wal_operator_say_failed(const struct sb_config *config, uint64_t sequence, int r)
{
        sb_log("the log in %s cannot be brought back, at batch %" PRIu64 ": %s; it is as it was",
                config->place.directory, sequence, strerror(-r));
}

void sb_wal_operator_say_too_small(const struct sb_wal_room *room, int r)
{
        char size[32], history[64] = "", text[32];

        if (r == -EMSGSIZE) {
                /* A value may have a quarter of the bus, and a tiny bus has shorter keys. */
                sb_config_size_words((room->value_len * 4 | 0xfffff) + 1, size);
                sb_log("--size is too small for what the log in %s has, of which a value of "
                       "%" PRIu64 " bytes needs some %s: give a larger one; the log is as it was",
                        room->config->place.directory, room->value_len, size);
                return;
        }
        if (room->history)
                snprintf(history, sizeof(history), ", %s of it older versions that rules keep",
                        sb_config_size_words(room->history & ~UINT64_C(1023), text));
        sb_log("--size is too small for what the log in %s has%s, which %s %s: give a larger one; "
               "the log is as it was",
                room->config->place.directory, history,
                room->does ? "fits into" : "does not fit into",
                sb_config_size_words(room->size, size));
}

void sb_wal_operator_say_larger(const struct sb_config *config, uint64_t size)
{
        char wanted[32], given[32];

        sb_log("what the log in %s has does not fit into %s as it comes back, so the bus has %s "
               "now: delete something, or start it with a larger --size",
                config->place.directory, sb_config_size_words(config->size, wanted),
                sb_config_size_words(size, given));
}

void sb_wal_operator_say_passed(const struct sb_wal_end *end)
{
        char name[SB_WAL_FILE_NAME_MAX];

        if (!end->passed)
                return;
        sb_wal_file_name(end->passed_file, name);
        sb_log("the log is damaged in %s at byte %" PRIu64 ", and %" PRIu64
               " of its batches are passed over. That costs nothing: they have pieces of a copy of "
               "the bus alone, and the copy before it and all changes are there",
                name, end->passed_offset, end->passed);
}

void sb_wal_operator_say_foreign(const struct sb_config *config, const struct sb_wal_end *end)
{
        const char *directory = config->place.directory;
        char name[SB_WAL_FILE_NAME_MAX];

        sb_wal_file_name(end->file, name);
        if (end->ending == SB_WAL_NO_FILE)
                sb_log("in the directory of the log %s, %s is %s, and no file of the log: move it "
                       "away, or bring the file back that had this name; nothing is done",
                        directory, name, end->what);
        else if (end->ending == SB_WAL_OTHER_VERSION)
                sb_log("the log in %s has format version %u, and this agentd reads version %u: "
                       "take the agentd that wrote it",
                        directory, end->version, SB_WAL_VERSION);
        else if (end->ending == SB_WAL_OTHER_ENDIAN)
                sb_log("the log in %s was written on a machine of the other byte order", directory);
        else
                sb_log("the files of the log in %s are of more than one bus: keep those of one",
                        directory);
}
