/* What may be left of a directory; see states.h. */
#define _GNU_SOURCE
#include "tests/power/states.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm/base/hash.h"

static void states_fail(const char *what)
{
        printf("FAIL %s\n", what);
        exit(1);
}

static void states_room(struct states_file *file)
{
        if (!file->bytes)
                file->bytes = calloc(1, FILE_MAX);
        if (!file->bytes)
                states_fail("no memory");
        file->changed = true;
}

static void states_put(
        struct states_file *file, const unsigned char *bytes, uint64_t offset, uint32_t len)
{
        states_room(file);
        if (offset + len > FILE_MAX)
                states_fail("a file of the test is too long");
        memcpy(file->bytes + offset, bytes, len);
        if (file->size < offset + len)
                file->size = (uint32_t)offset + len;
}

static void states_copy(struct states_file *to, const struct states_file *from)
{
        states_room(to);
        if (to->size > from->size)
                memset(to->bytes + from->size, 0, to->size - from->size);
        memcpy(to->bytes, from->bytes, from->size);
        to->size = from->size;
        to->changed = false;
}

/* The bytes of a file as a number. */
static uint64_t states_look_at(struct states_file *file)
{
        if (file->changed)
                file->look = sb_hash_key(file->bytes, file->size, file->size);
        file->changed = false;
        return file->look;
}

/* ---- names ---- */

static int states_link_find(const struct states_links *links, const char *name)
{
        for (uint32_t i = 0; i < links->count; i++)
                if (!strcmp(links->link[i].name, name))
                        return (int)i;
        return -1;
}

static void states_link_drop(struct states_links *links, const char *name)
{
        int i = states_link_find(links, name);

        if (i >= 0)
                links->link[i] = links->link[--links->count];
}

static void states_link_put(struct states_links *links, const char *name, uint32_t node)
{
        states_link_drop(links, name);
        if (links->count == LINKS_MAX)
                states_fail("more names than the test has space for");
        snprintf(links->link[links->count].name, NAME_MAX_LEN, "%s", name);
        links->link[links->count++].node = node;
}

/* Does what the record says to the names. */
static void states_rename(struct states_links *links, const struct record *record)
{
        int i;

        switch (record->kind) {
        case RECORD_CREATE:
        case RECORD_LINK:
        case RECORD_MAKE:
        case RECORD_SYMLINK:
                states_link_put(links, record->name, record->node);
                break;
        case RECORD_UNLINK:
                states_link_drop(links, record->name);
                break;
        case RECORD_RENAME:
                i = states_link_find(links, record->name);
                if (i >= 0 && links->link[i].node == record->node)
                        states_link_drop(links, record->name);
                states_link_put(links, record->to, record->node);
                break;
        default:
                break;
        }
}

/* The bytes of a name that are its directory's; 0: it lies in the top one. */
static size_t states_directory_len(const char *name)
{
        const char *slash = strrchr(name, '/');

        return slash ? (size_t)(slash - name) : 0;
}

static bool states_lies_in(const char *name, const char *directory)
{
        size_t len = states_directory_len(name);

        return strlen(directory) == len && !strncmp(name, directory, len);
}

/* Whether all directories above the name have theirs. */
static bool states_is_reached(const struct states_links *links, const char *name)
{
        char above[NAME_MAX_LEN];
        size_t len = states_directory_len(name);

        if (!len)
                return true;
        snprintf(above, sizeof(above), "%.*s", (int)len, name);
        return states_link_find(links, above) >= 0 && states_is_reached(links, above);
}

int states_find(const struct states *states, const char *name)
{
        int i = states_link_find(&states->links, name);

        return i >= 0 && states_is_reached(&states->links, name) ? (int)states->links.link[i].node
                                                                 : -1;
}

/* ---- going over the record ---- */

void states_begin(
        struct states *states, const struct recorder *recorder, int store_fd, int image_fd)
{
        memset(states, 0, sizeof(*states));
        states->recorder = recorder;
        states->store_fd = store_fd;
        states->image_fd = image_fd;
        for (uint32_t node = 0; node < NODES_MAX; node++)
                states->stored_fd[node] = -1;
}

void states_add(struct states *states, const char *name, uint32_t node, const unsigned char *bytes,
        uint32_t size)
{
        states_put(&states->sure[node], bytes, 0, size);
        states_link_put(&states->sure_links, name, node);
}

void states_add_directory(struct states *states, const char *name, uint32_t node)
{
        states->kind[node] = STATES_DIRECTORY;
        states_link_put(&states->sure_links, name, node);
}

void states_end(struct states *states)
{
        for (uint32_t node = 0; node < NODES_MAX; node++) {
                free(states->sure[node].bytes);
                free(states->file[node].bytes);
                free(states->stored[node].bytes);
                if (states->stored_fd[node] >= 0)
                        close(states->stored_fd[node]);
        }
        memset(states, 0, sizeof(*states));
}

/* The waiting writes of a file are sure now, but for those that an earlier sync has lost. */
static void states_settle_file(struct states *states, uint32_t node)
{
        uint32_t left = 0;

        for (uint32_t i = 0; i < states->write_count; i++) {
                const struct record *record = &states->recorder->records[states->writes[i]];

                if (record->node == node && !states->lost_write[i]) {
                        states_put(&states->sure[node], record->bytes, record->file_offset,
                                record->len);
                        continue;
                }
                states->writes[left] = states->writes[i];
                states->lost_write[left++] = states->lost_write[i];
        }
        states->write_count = left;
}

/* What was waiting in the directory is sure, and stays in its place behind what is not: of two
 * names for one thing, the later one counts. */
static void states_settle_names(struct states *states, const char *directory)
{
        uint32_t first = 0;

        for (uint32_t i = 0; i < states->name_count; i++)
                if (states_lies_in(states->recorder->records[states->names[i]].name, directory))
                        states->sure_name[i] = states->sure_name[i] || !states->lost_name[i];
        for (; first < states->name_count && states->sure_name[first]; first++)
                states_rename(
                        &states->sure_links, &states->recorder->records[states->names[first]]);
        states->name_count -= first;
        memmove(states->names, states->names + first, states->name_count * sizeof(uint32_t));
        memmove(states->lost_name, states->lost_name + first, states->name_count);
        memmove(states->sure_name, states->sure_name + first, states->name_count);
        states->names_waiting = 0;
        for (uint32_t i = 0; i < states->name_count; i++)
                states->names_waiting += !states->sure_name[i];
}

void states_step(struct states *states)
{
        uint32_t index = states->at++;
        const struct record *record = &states->recorder->records[index];

        switch (record->kind) {
        case RECORD_WRITE:
                if (states->write_count == WAITING_MAX)
                        states_fail("too many writes wait for a sync");
                states->lost_write[states->write_count] = false;
                states->writes[states->write_count++] = index;
                break;
        case RECORD_SYNC:
                states_settle_file(states, record->node);
                break;
        case RECORD_SYNC_FAILED:
                for (uint32_t i = 0; i < states->write_count; i++)
                        if (states->recorder->records[states->writes[i]].node == record->node)
                                states->lost_write[i] = true;
                break;
        case RECORD_MAKE:
        case RECORD_SYMLINK:
        case RECORD_CREATE:
        case RECORD_LINK:
        case RECORD_RENAME:
        case RECORD_UNLINK:
                if (record->kind == RECORD_MAKE)
                        states->kind[record->node] = STATES_DIRECTORY;
                if (record->kind == RECORD_SYMLINK) {
                        states->kind[record->node] = STATES_SYMLINK;
                        states_put(&states->sure[record->node], record->bytes, 0, record->len);
                }
                if (states->name_count == WAITING_MAX)
                        states_fail("too many names wait for a sync");
                states->lost_name[states->name_count] = false;
                states->sure_name[states->name_count] = false;
                states->names[states->name_count++] = index;
                states->names_waiting++;
                break;
        case RECORD_DIRECTORY:
                states_settle_names(states, record->name);
                break;
        case RECORD_DIRECTORY_FAILED:
                for (uint32_t i = 0; i < states->name_count; i++)
                        states->lost_name[i] = !states->sure_name[i];
                break;
        default:
                break;
        }
}

/* ---- a state ---- */

static uint64_t states_chance(uint64_t *seed)
{
        *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return *seed >> 33;
}

/* Puts the sectors, or the blocks, of a write there that the choice lets live. */
static void states_tear(struct states_file *file, const struct record *record,
        const struct states_choice *choice, uint64_t *seed)
{
        const uint64_t end = record->file_offset + record->len;
        const uint32_t piece = choice->blocks ? BLOCK : SECTOR;

        for (uint64_t at = record->file_offset, next; at < end; at = next) {
                next = at - at % piece + piece < end ? at - at % piece + piece : end;
                if (states_chance(seed) % 8 < choice->torn)
                        states_put(file, record->bytes + (at - record->file_offset), at,
                                (uint32_t)(next - at));
        }
        /* The size may have come to the disk without the bytes. */
        if (file->size >= end)
                return;
        states_room(file);
        if (choice->blocks)
                file->size +=
                        (uint32_t)(states_chance(seed) % ((end - file->size) / BLOCK + 1)) * BLOCK;
        else if (states_chance(seed) % 2)
                file->size = (uint32_t)end;
}

static bool states_bit(uint64_t word, uint32_t i)
{
        return word >> (i % 64) & 1;
}

/* A spare is nothing that the reader looks at. */
static bool states_is_read(const char *name)
{
        return strncmp(name, "wal-spare", 9) != 0;
}

static bool states_is_seen(const struct states *states, uint32_t i)
{
        const char *name = states->links.link[i].name;

        return states_is_read(name) && states_is_reached(&states->links, name);
}

void states_begin_behind(
        struct states *states, const struct states *from, struct recorder *recorder)
{
        uint32_t most = 0;

        states_begin(states, recorder, -1, -1);
        memcpy(states->kind, from->kind, sizeof(states->kind));
        for (uint32_t i = 0; i < from->links.count; i++) {
                const uint32_t node = from->links.link[i].node;

                if (!states_is_seen(from, i))
                        continue;
                states_link_put(&states->sure_links, from->links.link[i].name, node);
                if (from->file[node].bytes)
                        states_copy(&states->sure[node], &from->file[node]);
                states->sure[node].changed = true;
                recorder_put_name(recorder, from->links.link[i].name, node);
                most = node > most ? node : most;
        }
        recorder->node_count = most + 1;
}

/* How many waiting writes, longer than @least, are in files that the reader may look at. */
static uint32_t states_count(const struct states *states, uint32_t least)
{
        bool visible[NODES_MAX] = {false};
        uint32_t count = 0;

        for (uint32_t i = 0; i < states->sure_links.count; i++)
                if (states_is_read(states->sure_links.link[i].name))
                        visible[states->sure_links.link[i].node] = true;
        for (uint32_t i = 0; i < states->name_count; i++) {
                const struct record *record = &states->recorder->records[states->names[i]];

                if ((record->kind == RECORD_RENAME && states_is_read(record->to)) ||
                        (record->kind == RECORD_CREATE && states_is_read(record->name)))
                        visible[record->node] = true;
        }
        for (uint32_t i = 0; i < states->write_count; i++)
                count += states->recorder->records[states->writes[i]].len > least &&
                         visible[states->recorder->records[states->writes[i]].node];
        return count;
}

uint32_t states_visible(const struct states *states)
{
        return states_count(states, 0);
}

uint32_t states_visible_long(const struct states *states)
{
        return states_count(states, BLOCK);
}

static void states_choose(struct states *states, const struct states_choice *choice)
{
        uint64_t seed = choice->seed;

        states->links = states->sure_links;
        for (uint32_t i = 0, waiting = 0; i < states->name_count; i++)
                if (states->sure_name[i] || states_bit(choice->names, waiting++))
                        states_rename(&states->links, &states->recorder->records[states->names[i]]);
        for (uint32_t i = 0; i < states->links.count; i++) {
                uint32_t node = states->links.link[i].node;

                if (!states_is_read(states->links.link[i].name))
                        continue;
                if (!states->sure[node].bytes)
                        states_room(&states->sure[node]);
                if (!states->sure[node].changed && !states->file[node].changed &&
                        states->file[node].bytes &&
                        states->file[node].look == states->sure[node].look)
                        continue;
                states_copy(&states->file[node], &states->sure[node]);
                states->file[node].look = states_look_at(&states->sure[node]);
        }
        for (uint32_t i = 0; i < states->write_count; i++) {
                const struct record *record = &states->recorder->records[states->writes[i]];
                struct states_file *file = &states->file[record->node];

                if (!states_bit(choice->writes, i))
                        continue;
                if (choice->torn)
                        states_tear(file, record, choice, &seed);
                else
                        states_put(file, record->bytes, record->file_offset, record->len);
        }
}

/* ---- the image ---- */

/* Writes into the store what differs from what stands there. */
static void states_store(struct states *states, uint32_t node)
{
        const struct states_file *want = &states->file[node];
        struct states_file *have = &states->stored[node];
        char name[16];

        if (states->stored_fd[node] < 0) {
                snprintf(name, sizeof(name), "%u", node);
                states->stored_fd[node] = openat(
                        states->store_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
                states_room(have);
                if (states->stored_fd[node] < 0)
                        states_fail("the image cannot be made");
        }
        if (have->size != want->size && ftruncate(states->stored_fd[node], want->size) < 0)
                states_fail("the image cannot be cut");
        if (have->size > want->size)
                memset(have->bytes + want->size, 0, have->size - want->size);
        have->size = want->size;
        for (uint32_t at = 0, end; at < want->size; at = end) {
                end = at + SECTOR < want->size ? at + SECTOR : want->size;
                if (!memcmp(want->bytes + at, have->bytes + at, end - at))
                        continue;
                /* As many at once as differ. */
                while (end < want->size && memcmp(want->bytes + end, have->bytes + end, SECTOR))
                        end = end + SECTOR < want->size ? end + SECTOR : want->size;
                memcpy(have->bytes + at, want->bytes + at, end - at);
                if (pwrite(states->stored_fd[node], want->bytes + at, end - at, at) !=
                        (ssize_t)(end - at))
                        states_fail("the image cannot be written");
        }
}

static void states_link(struct states *states)
{
        char node[16];

        for (uint32_t i = states->linked.count; i-- > 0;) {
                const char *name = states->linked.link[i].name;
                int at = states_link_find(&states->links, name);

                if (at >= 0 && states->links.link[at].node == states->linked.link[i].node)
                        continue;
                (void)unlinkat(states->image_fd, name, 0);
                states->linked.link[i] = states->linked.link[--states->linked.count];
        }
        for (uint32_t i = 0; i < states->links.count; i++) {
                const char *name = states->links.link[i].name;

                if (!states_is_read(name) || states_link_find(&states->linked, name) >= 0)
                        continue;
                snprintf(node, sizeof(node), "%u", states->links.link[i].node);
                if (linkat(states->store_fd, node, states->image_fd, name, 0) < 0)
                        states_fail("the image has no links");
                states_link_put(&states->linked, name, states->links.link[i].node);
        }
}

/* What the reader would see, as one number. Names have no order. */
static uint64_t states_look(struct states *states, uint64_t known)
{
        uint64_t sum = known;

        for (uint32_t i = 0; i < states->links.count; i++) {
                const struct states_file *file = &states->file[states->links.link[i].node];
                const char *name = states->links.link[i].name;

                if (states_is_seen(states, i))
                        sum += sb_hash_key(
                                file->bytes, file->size, sb_hash_key(name, strlen(name), known));
        }
        return sum ? sum : 1;
}

uint64_t states_draw(struct states *states, const struct states_choice *choice, uint64_t known)
{
        states_choose(states, choice);
        return states_look(states, known);
}

static void states_lay_file(const struct states_file *file, int directory_fd, const char *name)
{
        int fd = openat(directory_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        if (fd < 0 || (file->size && pwrite(fd, file->bytes, file->size, 0) != (ssize_t)file->size))
                states_fail("a file of the image cannot be written");
        close(fd);
}

/* Lays one name. What has another name already gets one more. */
static void states_lay_link(
        const struct states *states, uint32_t i, int directory_fd, const char **names)
{
        const uint32_t node = states->links.link[i].node;
        const char *name = states->links.link[i].name;
        const struct states_file *file = &states->file[node];
        char text[32];
        int r = 0;

        if (states->kind[node] == STATES_SYMLINK) {
                snprintf(text, sizeof(text), "%.*s", (int)file->size, (const char *)file->bytes);
                r = symlinkat(text, directory_fd, name);
        } else if (names[node]) {
                r = linkat(directory_fd, names[node], directory_fd, name, 0);
        } else {
                states_lay_file(file, directory_fd, name);
        }
        names[node] = name;
        if (r < 0)
                states_fail("the image cannot be laid");
}

void states_lay(const struct states *states, int directory_fd)
{
        const char *names[NODES_MAX] = {NULL};
        bool laid[LINKS_MAX] = {false};

        /* Directories, from the top down: one that is laid has those above it. */
        for (bool more = true; more;) {
                more = false;
                for (uint32_t i = 0; i < states->links.count; i++) {
                        const char *name = states->links.link[i].name;

                        if (laid[i] ||
                                states->kind[states->links.link[i].node] != STATES_DIRECTORY ||
                                !states_is_seen(states, i))
                                continue;
                        laid[i] = mkdirat(directory_fd, name, 0700) == 0;
                        more |= laid[i];
                }
        }
        for (uint32_t i = 0; i < states->links.count; i++)
                if (states->kind[states->links.link[i].node] != STATES_DIRECTORY &&
                        states_is_seen(states, i))
                        states_lay_link(states, i, directory_fd, names);
}

bool states_make(struct states *states, const struct states_choice *choice, uint64_t known)
{
        uint64_t look;
        uint32_t at;

        look = states_draw(states, choice, known);
        for (at = look % SEEN_MAX; states->seen[at] && states->seen[at] != look;)
                at = (at + 1) % SEEN_MAX;
        if (states->seen[at] == look)
                return false;
        if (++states->seen_count == SEEN_MAX)
                states_fail("more states than the test has space for");
        states->seen[at] = look;
        for (uint32_t i = 0; i < states->links.count; i++)
                if (states_is_read(states->links.link[i].name))
                        states_store(states, states->links.link[i].node);
        states_link(states);
        return true;
}
