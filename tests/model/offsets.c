/* What lies at an offset of a segment: names for traces, and which offsets are in focus. This is
 * not instrumented, because a look at a word must change nothing. */
#include <stdio.h>
#include <string.h>

#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "tests/model/world.h"

static bool focused_in_unit(
        const struct sb_segment *segment, enum world_focus focus, uint64_t offset)
{
        uint32_t unit = sb_unit_of(segment, offset), kind, size;
        uint64_t word, within;

        if (unit == UINT32_MAX)
                return false;
        memcpy(&word, segment->base + segment->geometry.unit_words_at + 8 * unit, 8);
        kind = SB_UNIT_KIND(word);
        size = kind < SB_UNIT_LARGE && SB_UNIT_CLASS(word) < segment->class_count
                       ? segment->class_size[SB_UNIT_CLASS(word)]
                       : 64;
        within = (offset - sb_unit_offset(segment, unit)) % size;
        if (focus == FOCUS_INDEX)
                return kind == SB_UNIT_NODES;
        if (focus == FOCUS_MEMORY)
                return within < sizeof(struct sb_block);
        /* Of a block that was found in a note, the word that is looked at first. */
        if (focus == FOCUS_NOTES)
                return within < sizeof(struct sb_block) ||
                       within == (kind == SB_UNIT_NODES ? offsetof(struct sb_node, cell)
                                                        : offsetof(struct sb_version, stamp));
        if (focus == FOCUS_INTENTS)
                return kind != SB_UNIT_NODES && within == offsetof(struct sb_version, stamp);
        return kind != SB_UNIT_NODES && (within == offsetof(struct sb_version, stamp) ||
                                                within == offsetof(struct sb_version, prev));
}

static uint64_t in_record(const struct sb_geometry *g, uint64_t offset)
{
        return (offset - g->records_at) % g->record_stride;
}

/* The words by which a note is read and what it names goes. */
static bool focused_note(const struct sb_geometry *g, uint64_t offset)
{
        uint64_t within;

        if (offset < g->records_at)
                return offset == offsetof(struct sb_superblock, era);
        within = in_record(g, offset);
        return within == offsetof(struct sb_record, pin) ||
               within == offsetof(struct sb_record, operation);
}

bool world_focused(const struct sb_segment *segment, enum world_focus focus, uint64_t offset)
{
        const struct sb_geometry *g = &segment->geometry;

        if (focus == FOCUS_ALL)
                return true;
        if (focus == FOCUS_NOTES && offset < g->units_at)
                return offset < g->buckets_at && focused_note(g, offset);
        if (focus == FOCUS_INTENTS && offset < g->buckets_at)
                return false;
        if (offset < g->records_at)
                return focus == FOCUS_INDEX ? offset >= offsetof(struct sb_superblock, order)
                       : focus == FOCUS_MEMORY
                               ? offset == offsetof(struct sb_superblock, era)
                               : offset == offsetof(struct sb_superblock, clock) ||
                                         offset == offsetof(struct sb_superblock, stable);
        if (offset < g->buckets_at && focus != FOCUS_MEMORY && focus != FOCUS_CUTS)
                return false;
        if (offset < g->buckets_at) {
                uint64_t within = in_record(g, offset);

                return within >= sizeof(struct sb_record) ||
                       (focus == FOCUS_MEMORY
                                       ? within == offsetof(struct sb_record, pin) ||
                                                 within == offsetof(struct sb_record, freeing)
                                       : within == offsetof(struct sb_record, operation));
        }
        if (offset < g->unit_words_at)
                return true;
        if (offset < g->units_at)
                return focus == FOCUS_MEMORY;
        return focused_in_unit(segment, focus, offset);
}

/* The words of a record that have no name of their own, from the first snapshot on. */
static void where_in_words(
        const struct sb_geometry *g, uint32_t slot, uint64_t index, char ret_text[64])
{
        const char *name = "snapshot";

        if (index >= g->snapshot_count) {
                index -= g->snapshot_count;
                name = "guard";
                if (index >= g->guard_inline) {
                        index -= g->guard_inline;
                        name = "magazine";
                        if (index >= g->magazine_count) {
                                index -= g->magazine_count;
                                name = "opened";
                        }
                }
        }
        snprintf(ret_text, 64, "record[%u].%s[%lu]", slot, name, (unsigned long)index);
}

static void where_in_bell(uint32_t slot, uint64_t at, char ret_text[64])
{
        snprintf(ret_text, 64, "record[%u].%s", slot,
                at == offsetof(struct sb_record, bell)        ? "bell"
                : at == offsetof(struct sb_record, rung)      ? "rung"
                : at == offsetof(struct sb_record, sleeps)    ? "sleeps"
                : at == offsetof(struct sb_record, dirty_any) ? "dirty_any"
                                                              : "dirty");
}

void world_where(const struct sb_segment *segment, uint64_t offset, char ret_text[64])
{
        static const char *const unit_kinds[] = {
                "free", "version", "node", "guards", "large", "part"};
        static const char *const version_words[] = {
                "retire", "rev", "stamp", "prev", "node", "shape"};
        static const char *const node_words[] = {
                "retire", "cell", "ring", "rule", "hash", "unhooked"};
        static const char *const record_words[] = {
                "pin", "operation", "freeing", "guard_high", "opens"};
        const struct sb_geometry *g = &segment->geometry;
        uint64_t word, at;
        uint32_t unit, kind, size;

        if (offset < g->records_at) {
                at = offset;
                snprintf(ret_text, 64, "%s",
                        at == offsetof(struct sb_superblock, era)            ? "era"
                        : at == offsetof(struct sb_superblock, clock)        ? "clock"
                        : at == offsetof(struct sb_superblock, stable)       ? "stable cut"
                        : at == offsetof(struct sb_superblock, attention)    ? "attention"
                        : at == offsetof(struct sb_superblock, forgotten)    ? "forgotten"
                        : at == offsetof(struct sb_superblock, durable)      ? "durable"
                        : at == offsetof(struct sb_superblock, roster)       ? "roster"
                        : at == offsetof(struct sb_superblock, sweep_wanted) ? "sweep_wanted"
                        : at == offsetof(struct sb_superblock, order)        ? "order"
                                                                             : "superblock");
        } else if (offset < g->times_at) {
                uint32_t slot = (uint32_t)((offset - g->records_at) / g->record_stride);

                at = (offset - g->records_at) % g->record_stride;
                if (at >= SB_LINE && at < SB_LINE + 40)
                        snprintf(ret_text, 64, "record[%u].%s", slot,
                                record_words[(at - SB_LINE) / 8]);
                else if (at >= offsetof(struct sb_record, bell) && at < sizeof(struct sb_record))
                        where_in_bell(slot, at, ret_text);
                else if (at >= sizeof(struct sb_record))
                        where_in_words(g, slot, (at - sizeof(struct sb_record)) / 8, ret_text);
                else
                        snprintf(ret_text, 64, "record[%u] + %lu", slot, (unsigned long)at);
        } else if (offset < g->marks_at) {
                snprintf(ret_text, 64, "times + %lu", (unsigned long)(offset - g->times_at));
        } else if (offset < g->buckets_at) {
                at = (offset - g->marks_at) / 8;
                snprintf(ret_text, 64, "mark[%lu].%s", (unsigned long)at / 2,
                        at % 2 ? "cut" : "owner");
        } else if (offset >= g->unlogged_at && offset < g->unit_words_at) {
                snprintf(ret_text, 64, "unlogged[%lu]",
                        (unsigned long)(offset - g->unlogged_at) / 8);
        } else if (offset >= g->floors_at && offset < g->unlogged_at) {
                at = (offset - g->floors_at) / 8;
                snprintf(ret_text, 64, "floor[%lu]", (unsigned long)at);
        } else if (offset < g->unit_words_at) {
                at = (offset - g->buckets_at) / 8;
                if (at % 8 == 7)
                        snprintf(ret_text, 64, "bucket[%lu].sign", (unsigned long)at / 8);
                else
                        snprintf(ret_text, 64, "bucket[%lu].cell[%lu]", (unsigned long)at / 8,
                                (unsigned long)at % 8);
        } else if (offset < g->bitmaps_at) {
                at = offset - g->unit_words_at;
                if (at < 8 * g->unit_count)
                        snprintf(ret_text, 64, "unit[%lu].word", (unsigned long)at / 8);
                else
                        snprintf(ret_text, 64, "unit[%lu].birth",
                                (unsigned long)(at - 8 * g->unit_count) / 4);
        } else if (offset < g->units_at) {
                snprintf(ret_text, 64, "unit[%lu].bitmap",
                        (unsigned long)((offset - g->bitmaps_at) / g->bitmap_stride));
        } else {
                unit = sb_unit_of(segment, offset);
                if (unit == UINT32_MAX)
                        return;
                memcpy(&word, segment->base + g->unit_words_at + 8 * unit, 8);
                kind = SB_UNIT_KIND(word);
                size = SB_UNIT_CLASS(word) < segment->class_count
                               ? segment->class_size[SB_UNIT_CLASS(word)]
                               : 64;
                at = (offset - sb_unit_offset(segment, unit)) % size;
                snprintf(ret_text, 64, "%s %lx.%s", kind < 6 ? unit_kinds[kind] : "?",
                        (unsigned long)(offset - at),
                        at == 0                 ? "birth"
                        : at >= 48              ? (kind == SB_UNIT_NODES ? "next" : "bytes")
                        : kind == SB_UNIT_NODES ? node_words[at / 8]
                                                : version_words[at / 8]);
        }
}
