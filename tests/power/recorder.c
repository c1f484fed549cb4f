/* A back end of the log that writes down what is done; see recorder.h. */
#include "tests/power/recorder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct record *recorder_new(struct recorder *recorder, enum record_kind kind, uint32_t node)
{
        struct record *record;

        if (recorder->count == RECORD_MAX) {
                printf("FAIL the record is full\n");
                exit(1);
        }
        record = &recorder->records[recorder->count++];
        *record = (struct record){.kind = kind, .node = node};
        return record;
}

void recorder_note(
        struct recorder *recorder, enum record_kind kind, uint64_t sequence, uint64_t seed)
{
        struct record *record = recorder_new(recorder, kind, 0);

        record->sequence = sequence;
        record->seed = seed;
}

/* ---- names ---- */

int recorder_find(const struct recorder *recorder, const char *name)
{
        for (uint32_t i = 0; i < recorder->name_count; i++)
                if (!strcmp(recorder->names[i].name, name))
                        return (int)i;
        return -1;
}

void recorder_drop_name(struct recorder *recorder, const char *name)
{
        int i = recorder_find(recorder, name);

        if (i >= 0)
                recorder->names[i] = recorder->names[--recorder->name_count];
}

void recorder_put_name(struct recorder *recorder, const char *name, uint32_t node)
{
        recorder_drop_name(recorder, name);
        if (recorder->name_count == sizeof(recorder->names) / sizeof(recorder->names[0])) {
                printf("FAIL more names than the record has space for\n");
                exit(1);
        }
        snprintf(recorder->names[recorder->name_count].name, NAME_MAX_LEN, "%s", name);
        recorder->names[recorder->name_count++].node = node;
}

uint32_t recorder_add(struct recorder *recorder, const char *name)
{
        if (recorder->node_count == NODES_MAX) {
                printf("FAIL more files than the record has space for\n");
                exit(1);
        }
        recorder_put_name(recorder, name, recorder->node_count);
        return recorder->node_count++;
}

/* ---- failing ---- */

bool recorder_fails(struct recorder *recorder)
{
        recorder->calls++;
        return recorder->fail_at &&
               (recorder->failure == FAIL_REST ? recorder->calls >= recorder->fail_at
                                               : recorder->calls == recorder->fail_at);
}

/* A call for a file is about to be made: none is allowed when an earlier one failed. */
static uint32_t recorder_node(struct recorder *recorder, int file)
{
        uint32_t node = (uint32_t)recorder->open_node[file];

        if (recorder->poisoned[node])
                recorder->wrong = "a file is written or synced after that failed once";
        return node;
}

void recorder_note_write(struct recorder *recorder, uint32_t node, const void *bytes, size_t len,
        uint64_t file_offset)
{
        struct record *record = recorder_new(recorder, RECORD_WRITE, node);

        record->file_offset = file_offset;
        record->len = (uint32_t)len;
        record->bytes = malloc(len ? len : 1);
        memcpy(record->bytes, bytes, len);
}

/* ---- the table ---- */

static int recorder_create(void *context, const char *name, int *ret_file)
{
        struct recorder *recorder = context;
        uint32_t node;
        int r;

        if (recorder_fails(recorder))
                return recorder->error;
        r = recorder->below.create(recorder->below.context, name, ret_file);
        if (r)
                return r;
        node = recorder_add(recorder, name);
        recorder->open_node[*ret_file] = (int)node;
        snprintf(recorder_new(recorder, RECORD_CREATE, node)->name, NAME_MAX_LEN, "%s", name);
        return 0;
}

static int recorder_open(void *context, const char *name, int *ret_file)
{
        struct recorder *recorder = context;
        int i, r;

        if (recorder_fails(recorder))
                return recorder->error;
        r = recorder->below.open(recorder->below.context, name, ret_file);
        if (r)
                return r;
        i = recorder_find(recorder, name);
        recorder->open_node[*ret_file] = (int)recorder->names[i].node;
        return 0;
}

static int recorder_write(
        void *context, int file, const void *bytes, size_t len, uint64_t file_offset)
{
        struct recorder *recorder = context;
        uint32_t node = recorder_node(recorder, file);
        bool fails = recorder_fails(recorder);
        int r;

        if (fails)
                recorder->poisoned[node] = true;
        if (fails && recorder->failure == FAIL_BEFORE)
                return recorder->error;
        if (fails)
                len /= 2;
        recorder_note_write(recorder, node, bytes, len, file_offset);
        r = recorder->below.write(recorder->below.context, file, bytes, len, file_offset);
        return fails ? recorder->error : r;
}

static int recorder_push(void *context, int file, uint32_t buffer, size_t len, uint64_t file_offset)
{
        struct recorder *recorder = context;
        uint32_t node = recorder_node(recorder, file);
        bool fails = recorder_fails(recorder);
        int r;

        if (fails)
                recorder->poisoned[node] = true;
        if (fails && recorder->failure == FAIL_BEFORE)
                return recorder->error;
        if (fails)
                len /= 2;
        recorder_note_write(recorder, node, recorder->below.buffers[buffer], len, file_offset);
        r = recorder->below.push(recorder->below.context, file, buffer, len, file_offset);
        return fails ? recorder->error : r;
}

static int recorder_sync(void *context, int file)
{
        struct recorder *recorder = context;
        uint32_t node = recorder_node(recorder, file);

        if (recorder_fails(recorder)) {
                recorder->poisoned[node] = true;
                recorder_new(recorder, RECORD_SYNC_FAILED, node);
                return recorder->error;
        }
        recorder_new(recorder, RECORD_SYNC, node);
        return recorder->below.sync(recorder->below.context, file);
}

static int recorder_finish(
        void *context, int file, uint32_t buffer, size_t len, uint64_t file_offset)
{
        struct recorder *recorder = context;
        uint32_t node = recorder_node(recorder, file);
        bool fails = recorder_fails(recorder);
        int r;

        if (fails)
                recorder->poisoned[node] = true;
        /* Half of the frame is written, or all of it; no sync succeeds. */
        if (fails && recorder->failure == FAIL_BEFORE)
                len /= 2;
        recorder_note_write(recorder, node, recorder->below.buffers[buffer], len, file_offset);
        if (fails) {
                recorder_new(recorder, RECORD_SYNC_FAILED, node);
                (void)recorder->below.push(recorder->below.context, file, buffer, len, file_offset);
                return recorder->error;
        }
        r = recorder->below.finish(recorder->below.context, file, buffer, len, file_offset);
        if (!r)
                recorder_new(recorder, RECORD_SYNC, node);
        return r;
}

static void recorder_close(void *context, int file)
{
        struct recorder *recorder = context;

        if (recorder->open_node[file] < 0)
                recorder->wrong = "a file is closed that is not open";
        recorder->open_node[file] = -1;
        recorder->below.close(recorder->below.context, file);
}

static int recorder_rename(void *context, const char *from, const char *to)
{
        struct recorder *recorder = context;
        bool fails = recorder_fails(recorder);
        struct record *record;
        uint32_t node;
        int r;

        if (fails && recorder->failure == FAIL_BEFORE)
                return recorder->error;
        r = recorder->below.rename(recorder->below.context, from, to);
        if (r)
                return r;
        node = recorder->names[recorder_find(recorder, from)].node;
        recorder_drop_name(recorder, from);
        recorder_put_name(recorder, to, node);
        record = recorder_new(recorder, RECORD_RENAME, node);
        snprintf(record->name, NAME_MAX_LEN, "%s", from);
        snprintf(record->to, NAME_MAX_LEN, "%s", to);
        return fails ? recorder->error : 0;
}

static int recorder_unlink(void *context, const char *name)
{
        struct recorder *recorder = context;
        bool fails = recorder_fails(recorder);
        int r;

        if (fails && recorder->failure == FAIL_BEFORE)
                return recorder->error;
        r = recorder->below.unlink(recorder->below.context, name);
        if (r)
                return r;
        recorder_drop_name(recorder, name);
        snprintf(recorder_new(recorder, RECORD_UNLINK, 0)->name, NAME_MAX_LEN, "%s", name);
        return fails ? recorder->error : 0;
}

static int recorder_directory(void *context)
{
        struct recorder *recorder = context;

        if (recorder_fails(recorder)) {
                recorder_new(recorder, RECORD_DIRECTORY_FAILED, 0);
                return recorder->error;
        }
        recorder_new(recorder, RECORD_DIRECTORY, 0);
        return recorder->below.sync_directory(recorder->below.context);
}

static int recorder_random(void *context, uint64_t *ret)
{
        struct recorder *recorder = context;

        if (recorder_fails(recorder))
                return recorder->error;
        recorder->salt = recorder->salt * UINT64_C(6364136223846793005) + 1442695040888963407;
        *ret = recorder->salt;
        return 0;
}

void recorder_begin(struct recorder *recorder, const struct sb_wal_io *below, struct sb_wal_io *ret)
{
        uint64_t salt = recorder->salt;

        memset(recorder, 0, sizeof(*recorder));
        memset(recorder->open_node, -1, sizeof(recorder->open_node));
        recorder->below = *below;
        recorder->salt = salt + 1;
        recorder->error = -EIO;
        *ret = (struct sb_wal_io){
                .context = recorder,
                .buffer_size = below->buffer_size,
                .create = recorder_create,
                .open = recorder_open,
                .write = recorder_write,
                .push = recorder_push,
                .finish = recorder_finish,
                .sync = recorder_sync,
                .close = recorder_close,
                .rename = recorder_rename,
                .unlink = recorder_unlink,
                .sync_directory = recorder_directory,
                .random = recorder_random,
        };
        memcpy(ret->buffers, below->buffers, sizeof(ret->buffers));
}

void recorder_clear(struct recorder *recorder)
{
        recorder_end(recorder);
        recorder->name_count = recorder->node_count = 0;
        recorder->calls = recorder->fail_at = 0;
        recorder->error = -EIO;
}

void recorder_end(struct recorder *recorder)
{
        for (uint32_t i = 0; i < recorder->count; i++)
                free(recorder->records[i].bytes);
        recorder->count = 0;
}
