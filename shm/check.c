/*
 * The validator; see check.h.
 *
 * Four passes: the ordered index level by level, the buckets with their chains, the units with
 * their blocks, the client records. Each finding is looked at again when the word that it hangs on
 * has changed meanwhile: then it was somebody at work. Passes that follow links without a bound of
 * their own run only when the passes before them found nothing.
 */
#include "check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "epoch.h"
#include "guard.h"
#include "index.h"
#include "order.h"
#include "reach.h"
#include "slab.h"
#include "slot.h"
#include "stock.h"
#include "txn.h"

struct look {
        struct sb_peer *peer;
        struct sb_segment *segment;
        struct sb_check_report *report;
        bool quiescent;
        uint64_t held, listed; /* versions that are held; those that transactions list */
};

__attribute__((format(printf, 2, 3))) static void problem(
        struct look *look, const char *format, ...)
{
        uint32_t i = look->report->problem_count++;
        va_list arguments;

        if (i >= sizeof(look->report->problems) / sizeof(look->report->problems[0]))
                return;
        va_start(arguments, format);
        vsnprintf(look->report->problems[i], sizeof(look->report->problems[i]), format, arguments);
        va_end(arguments);
}

/* ---- the ordered index ---- */

/* Retired while something links it. What was found by a link that had gone meanwhile may be so:
 * then a walk that begins after this answer does not meet it again, since nothing is dated before
 * it is out of reach. */
static bool is_retired(struct sb_block *block)
{
        uint32_t retire = sb_load_acquire(&block->retire); /* A:retire. */

        /* In somebody's hand is another matter: check_block() asks whether he has noted it. */
        return retire >= SB_ERA_MIN && retire < SB_RETIRE_FREEING;
}

/* A node in the index, unmarked: the cell that it names is its key's. */
static const char *node_fault(struct look *look, struct sb_node *node, uint64_t at)
{
        uint64_t own = sb_load_pinned(look->peer, &node->cell), word;
        struct sb_cell64 *cell = sb_cell_at(look->segment, own);
        struct sb_version *head;

        if (!own || own == SB_NODE_GONE)
                return NULL;
        if (!cell)
                return "it names no cell";
        word = sb_load_pinned(look->peer, cell);
        head = sb_version_at(look->segment, word & SB_OFFSET_MASK);
        /* Gone meanwhile: first the node says so, then its cell is emptied. */
        if ((!head || head->node != at) && sb_load_pinned(look->peer, &node->cell) == own)
                return "its cell is another's";
        return NULL;
}

/* A walk along one level. What is behind a node that is leaving may have left, too, and be free
 * memory: a pin protects what is reached through links that are in place, not what a node out of
 * the index still names (its next may be younger than our pin's hi, and gone before we look). So
 * such a node is passed only while the last link that stays still leads to it. */
struct level_walk {
        struct sb_cell64 *link; /* of the last node that stays, or the beginning */
        uint64_t first, word;   /* what was in it; where the walk goes on */
        const unsigned char *last_key;
        uint32_t last_len;
        uint64_t steps;
};

static void walk_from(struct look *look, struct level_walk *walk, struct sb_cell64 *link)
{
        walk->link = link;
        walk->first = walk->word = sb_load_pinned(look->peer, link);
}

static void walk_begin(struct look *look, struct level_walk *walk, uint32_t level)
{
        *walk = (struct level_walk){0};
        walk_from(look, walk, &look->segment->super->order[level]);
        if (!level)
                look->report->nodes = 0;
}

/* Past a node that is leaving and names @next. False: begin again. */
static bool walk_past(struct look *look, struct level_walk *walk, uint64_t next)
{
        if (sb_load_pinned(look->peer, walk->link) == walk->first) {
                walk->word = next;
                return true;
        }
        walk_from(look, walk, walk->link);
        return !(walk->first & SB_PREV_MARKED);
}

/* The node at @at, if it can be one. */
static struct sb_node *checked_node(struct look *look, uint32_t level, uint64_t at)
{
        struct sb_segment *segment = look->segment;
        struct sb_node *node = sb_node_at(segment, at);
        uint64_t size;

        if (!node || !sb_slab_is_block(segment, at, SB_UNIT_NODES, &size)) {
                problem(look, "ordered index, level %u: no node at offset %llu", level,
                        (unsigned long long)at);
                return NULL;
        }
        if (!sb_node_key(segment, node) || sb_node_size(node->height, node->key_len) > size ||
                node->height <= level || node->height > segment->height_max) {
                problem(look, "node at offset %llu: height or key length is wrong",
                        (unsigned long long)at);
                return NULL;
        }
        return node;
}

/* One node on the way. @lowest, @next: its links at level 0 and at this one, in the order in which
 * they were loaded. */
static const char *step_fault(struct look *look, struct level_walk *walk, uint32_t level,
        struct sb_node *node, uint64_t lowest, uint64_t next)
{
        const unsigned char *key = sb_node_key(look->segment, node);
        const char *fault = NULL;

        if (lowest & ~next & SB_PREV_MARKED)
                return "it is marked at level 0 before the levels above"; /* a walk would come down
                                                                             here for ever */
        if (next & SB_PREV_MARKED)
                return NULL;
        if (!key ||
                (walk->last_key &&
                        sb_key_compare(walk->last_key, walk->last_len, key, node->key_len) >= 0 &&
                        look->quiescent))
                return "it is out of order";
        if (!level)
                fault = node_fault(look, node, sb_offset_of(look->segment, node));
        walk->last_key = key;
        walk->last_len = node->key_len;
        look->report->nodes += !level;
        return fault;
}

#define BEGINNINGS_MAX 100u /* of a walk that others disturb; then it is left at that */

/* *suspect: 0, or what was found retired before this walk began; set when there is such a node and
 * none was suspected before. */
static bool check_level(struct look *look, uint32_t level, uint64_t *suspect)
{
        const uint64_t suspected = *suspect, most = look->segment->geometry.size / SB_BLOCK_MIN;
        uint32_t beginnings = 0;
        struct level_walk walk;

        walk_begin(look, &walk, level);
        if (walk.first & SB_PREV_MARKED) {
                problem(look, "ordered index, level %u: its beginning is marked", level);
                return false;
        }
        while (walk.word & SB_OFFSET_MASK) {
                uint64_t at = walk.word & SB_OFFSET_MASK, lowest, next;
                struct sb_node *node = checked_node(look, level, at);
                const char *fault;

                if (!node)
                        return false;
                lowest = sb_load_pinned(look->peer, &node->next[0]);
                next = sb_load_pinned(look->peer, &node->next[level]);
                fault = step_fault(look, &walk, level, node, lowest, next);
                if (at == suspected)
                        fault = "it is linked and retired";
                else if (!*suspect && is_retired(&node->block))
                        *suspect = at;
                if (walk.steps++ > most)
                        fault = "the walk is endless";
                if (fault) {
                        problem(look, "ordered index, level %u, node at offset %llu: %s", level,
                                (unsigned long long)at, fault);
                        return false;
                }
                if (!(next & SB_PREV_MARKED)) {
                        walk.link = &node->next[level];
                        walk.first = walk.word = next;
                } else if (!walk_past(look, &walk, next)) {
                        if (++beginnings == BEGINNINGS_MAX)
                                return true;
                        walk_begin(look, &walk, level);
                }
        }
        return true;
}

static void check_order(struct look *look)
{
        uint32_t level;

        for (level = 0; level < look->segment->height_max; level++) {
                uint64_t suspect = 0;
                bool sound;

                sb_pin(look->peer);
                sound = check_level(look, level, &suspect);
                if (sound && suspect)
                        sound = check_level(look, level, &suspect);
                sb_unpin(look->peer);
                if (!sound)
                        return;
        }
}

/* ---- buckets and chains ---- */

/* A version of a transaction that is under way or was aborted. */
static const char *intent_fault(
        struct look *look, struct sb_version *version, uint64_t word, bool newest)
{
        struct sb_commit *commit;

        if (word == SB_STAMP_ABORTED)
                return NULL;
        if (!sb_stamp_is_intent(word))
                return "a stamp makes no sense";
        if (!newest)
                return "an intent was replaced before it was decided";
        if (!(SB_SHAPE_KIND(version->shape) & SB_VERSION_HAS_TXN))
                return "an intent has no transaction's number";
        commit = sb_slab_is_block(look->segment, word & SB_OFFSET_MASK, SB_UNIT_VERSIONS, NULL)
                         ? sb_commit_at(look->segment, word & SB_OFFSET_MASK)
                         : NULL;
        if (commit && SB_STATUS_STATE(sb_load_acquire(&commit->status)) <= SB_STATUS_ABORTED)
                return NULL; /* A:status. */
        /* Over meanwhile: then the outcome was copied first. A:stamp. */
        return sb_load_acquire(&version->stamp) == word ? "an intent names no transaction" : NULL;
}

/* A committed one: @rev, @stamp: of the committed one above. */
static const char *order_fault(struct look *look, struct sb_version *version, uint64_t own_stamp,
        uint64_t rev, uint64_t stamp)
{
        if (version->rev >= rev)
                return "revisions do not descend";
        if ((!own_stamp && rev != UINT64_MAX) || own_stamp > stamp)
                return "stamps do not descend";
        /* A:clock. */
        if (own_stamp >= sb_load_acquire(&look->segment->super->clock) + 1)
                return "a stamp is ahead of the clock";
        return NULL;
}

/* *suspect: as for check_level(). */
static const char *chain_fault(
        struct look *look, struct sb_version *head, uint64_t *suspect, uint64_t *ret_versions)
{
        struct sb_segment *segment = look->segment;
        const uint64_t suspected = *suspect;
        uint64_t most = segment->geometry.size / SB_BLOCK_MIN, rev = UINT64_MAX, stamp = UINT64_MAX,
                 link, size, steps;
        struct sb_version *version = head;
        const char *fault;

        for (steps = 0; version; steps++) {
                uint64_t own_stamp, at = sb_offset_of(segment, version), shape;

                if (steps > most)
                        return "the chain is endless";
                if (!sb_slab_is_block(segment, at, SB_UNIT_VERSIONS, &size))
                        return "the chain leads to what is no version";
                shape = version->shape;
                if (!SB_SHAPE_KEY_LEN(shape) || SB_SHAPE_KEY_LEN(shape) > segment->key_len_max ||
                        sb_version_size(shape) > size)
                        return "key and value do not fit their block";
                if (version->node != head->node)
                        return "a version of another key is in the chain";
                own_stamp = sb_load_acquire(&version->stamp); /* A:stamp. */
                if (own_stamp & SB_STAMP_INTENT) {
                        fault = intent_fault(look, version, own_stamp, !steps);
                } else {
                        fault = order_fault(look, version, own_stamp, rev, stamp);
                        rev = version->rev;
                        if (own_stamp)
                                stamp = own_stamp;
                }
                if (fault)
                        return fault;
                if (at == suspected)
                        return "a version in the chain is retired";
                if (!*suspect && is_retired(&version->block))
                        *suspect = at;
                link = sb_load_pinned(look->peer, &version->prev);
                if (!steps && (link & SB_PREV_MARKED))
                        return "the newest version is on its way out";
                if ((link & SB_OFFSET_MASK) && !sb_version_at(segment, link & SB_OFFSET_MASK))
                        return "the chain leads out of the segment";
                version = link & SB_OFFSET_MASK ? sb_version_at(segment, link & SB_OFFSET_MASK)
                                                : NULL;
        }
        *ret_versions = steps;
        return NULL;
}

static bool in_path(struct look *look, uint64_t hash, uint32_t bucket)
{
        struct sb_path path = sb_path_first(look->segment, hash);

        do {
                if (path.bucket == bucket)
                        return true;
        } while (sb_path_next(look->segment, hash, &path));
        return false;
}

static const char *head_fault(
        struct look *look, uint64_t word, uint64_t number, struct sb_version *head)
{
        struct sb_segment *segment = look->segment;
        uint64_t hash, own, stamp, next;
        const unsigned char *key;
        struct sb_node *node;
        uint32_t retire;

        if (!sb_slab_is_block(segment, word & SB_OFFSET_MASK, SB_UNIT_VERSIONS, NULL))
                return "leads to no version";
        if (!sb_slab_is_block(segment, head->node, SB_UNIT_NODES, NULL))
                return "its version names no node";
        if (!sb_version_fits(segment, head))
                return "its version has impossible lengths";
        node = sb_node_at(segment, head->node);
        key = sb_node_key(segment, node);
        if (!key || sb_key_compare(key, node->key_len, head->bytes, SB_SHAPE_KEY_LEN(head->shape)))
                return "version and node have different keys";
        hash = sb_hash_key(key, node->key_len, segment->seed);
        if (node->hash != hash || sb_tag_of(hash) != (word & SB_TAG_MASK) ||
                !in_path(look, hash, (uint32_t)(number / 8 - 1)))
                return "the key does not belong into this bucket";
        /* A:stamp. Before the node's cell: a birth is stamped after its node has named the cell. */
        stamp = sb_load_acquire(&head->stamp);
        /* likewise: it is marked after the node was gone */
        next = sb_load_pinned(look->peer, &node->next[0]);
        own = sb_load_pinned(look->peer, &node->cell);
        if ((word & SB_CELL_FROZEN) || (SB_SHAPE_KIND(head->shape) == SB_VERSION_BIRTH && !stamp))
                return NULL; /* on its way out, or not confirmed yet */
        if (own != number)
                return "its node names another cell";
        if (next & SB_PREV_MARKED)
                return "its node is leaving the ordered index";
        if (look->quiescent && !sb_reach_node(look->peer, node))
                return "its node is not in the ordered index";
        retire = sb_load_acquire(&head->block.retire); /* A:retire. */
        if (retire > SB_RETIRE_HELD && retire < SB_RETIRE_FREEING)
                return "its newest version is retired";
        return NULL;
}

/* The first version that is not a transaction's that is under way or was aborted. */
static struct sb_version *what_counts(struct look *look, struct sb_version *head)
{
        struct sb_version *version = head;

        while (version && (sb_load_acquire(&version->stamp) & SB_STAMP_INTENT)) /* A:stamp. */
                version = sb_version_at(
                        look->segment, sb_load_pinned(look->peer, &version->prev) & SB_OFFSET_MASK);
        return version ? version : head;
}

static void check_cell(struct look *look, uint32_t bucket, uint32_t place)
{
        struct sb_check_report *report = look->report;
        uint64_t number = SB_CELL_NUMBER(bucket, place), word, versions = 0, suspect = 0, before;
        struct sb_cell64 *cell = sb_cell_at(look->segment, number);
        struct sb_version *head;
        const char *fault;

        for (;;) {
                word = sb_load_pinned(look->peer, cell);
                if (!word)
                        return;
                head = sb_version_at(look->segment, word & SB_OFFSET_MASK);
                before = suspect;
                fault = head ? head_fault(look, word, number, head) : "leads out of the segment";
                if (!fault)
                        fault = chain_fault(look, head, &suspect, &versions);
                if (!fault && suspect == before)
                        break;
                if (fault && sb_load_pinned(look->peer, cell) == word)
                        break;
        }
        if (fault) {
                problem(look, "bucket %u, cell %u: %s", bucket, place, fault);
                return;
        }
        report->versions += versions;
        head = what_counts(look, head);
        if (SB_SHAPE_KIND(head->shape) == SB_VERSION_BIRTH)
                report->births++;
        else if ((SB_SHAPE_KIND(head->shape) & SB_VERSION_KIND) == SB_VERSION_VALUE)
                report->keys++;
        else
                report->keys_deleted++;
}

/* A linked node has a cell of its own, or none yet, or is going. */
static void check_buckets(struct look *look)
{
        const struct sb_geometry *g = &look->segment->geometry;
        uint32_t bucket, place;

        for (bucket = 0; bucket < g->bucket_count + g->spill_count; bucket++) {
                sb_pin(look->peer);
                for (place = 0; place < SB_BUCKET_CELLS; place++)
                        check_cell(look, bucket, place);
                sb_unpin(look->peer);
        }
}

/* ---- units and blocks ---- */

static bool owner_alive(struct look *look, uint64_t word)
{
        uint32_t slot = (uint32_t)(SB_UNIT_OWNER(word) >> 32) - 1, generation;
        enum sb_client_state state;

        if (slot >= look->segment->geometry.client_count)
                return false;
        state = sb_slot_state(look->segment, slot, &generation);
        /* A record that is being reaped still owns: the reaper is at it. */
        return generation == (uint32_t)word && state != SB_CLIENT_FREE;
}

static bool owned(uint64_t word)
{
        return SB_UNIT_KIND(word) < SB_UNIT_PART && SB_UNIT_OWNER(word);
}

/* Whether an era that was loaded before is still to come: nothing that names an era is ahead of it.
 */
static bool era_ahead(struct look *look, uint32_t era)
{
        return sb_era_before(sb_load_acquire(&look->segment->super->era), era); /* A:era. */
}

/* A part without its head: each of the two looks may have met the unit between two lives. */
static bool orphaned(struct look *look, uint32_t unit, uint64_t word)
{
        uint32_t head = (uint32_t)word, tries;

        for (tries = 0; tries < 3; tries++)
                /* A:unit-owned, both. The head comes before its parts and goes after them. */
                if (SB_UNIT_KIND(sb_load_acquire(&look->segment->unit_words[head])) ==
                                SB_UNIT_LARGE ||
                        sb_load_acquire(&look->segment->unit_words[unit]) != word)
                        return false;
        return true;
}

/* Neither linked nor private, three times over: the first look may have seen a block on its way
 * from one to the other. */
static bool lost(struct look *look, uint32_t unit, uint64_t at, enum sb_unit_kind kind)
{
        uint32_t tries;

        for (tries = 0; tries < 3; tries++) {
                /* A:unit-owned. */
                uint64_t word = sb_load_acquire(&look->segment->unit_words[unit]);

                if ((owned(word) && owner_alive(look, word)) ||
                        !sb_slab_is_block(look->segment, at,
                                kind == SB_UNIT_LARGE ? SB_UNIT_VERSIONS : kind, NULL) ||
                        sb_reach_published(look->peer, at, kind))
                        return false;
        }
        return true;
}

/* In the hand of a client who has not noted it, three times over. */
static bool unnoted(struct look *look, struct sb_block *block, uint64_t at, enum sb_unit_kind kind)
{
        uint32_t tries;

        for (tries = 0; tries < 3; tries++) {
                uint32_t retire = sb_load_acquire(&block->retire); /* A:retire. */

                if (retire < SB_RETIRE_FREEING ||
                        sb_stock_noted(look->segment, retire - SB_RETIRE_FREEING, at) ||
                        !sb_slab_is_block(look->segment, at,
                                kind == SB_UNIT_LARGE ? SB_UNIT_VERSIONS : kind, NULL))
                        return false;
        }
        return true;
}

/* Whether somebody, alive or not reaped yet, is in a transaction. */
static bool any_noted(struct look *look)
{
        uint32_t slot;

        /* A:operation. */
        for (slot = 0; slot < look->segment->geometry.client_count; slot++)
                if (sb_load_acquire(&sb_client_at(look->segment, slot)->operation) &
                        SB_OPERATION_COMMIT)
                        return true;
        return false;
}

/* A version that is held by a transaction that was aborted; those of one that is not decided are
 * its own. */
static bool held_aborted(const struct sb_version *version)
{
        /* A:retire, A:stamp. */
        return version && sb_load_acquire(&version->block.retire) == SB_RETIRE_HELD &&
               sb_load_acquire(&version->stamp) == SB_STAMP_ABORTED;
}

/* Who holds a version that is held: a transaction that is not over for all lists it. Both are
 * counted here, and compared when nobody is at work. */
static void count_held(struct look *look, uint64_t at, uint32_t retire)
{
        uint32_t slot = retire - SB_RETIRE_FREEING, i;
        struct sb_commit *commit;

        /* What is in somebody's stock is neither. A:freeing. */
        if (!look->quiescent ||
                (retire >= SB_RETIRE_FREEING &&
                        (slot >= look->segment->geometry.client_count ||
                                sb_load_acquire(&sb_client_at(look->segment, slot)->freeing) !=
                                        at)))
                return;
        look->held += held_aborted(sb_version_at(look->segment, at));
        commit = retire >= SB_RETIRE_DYING ? sb_commit_at(look->segment, at) : NULL;
        /* A:status. What a committed one lists may be others' by now. */
        if (!commit || SB_STATUS_STATE(sb_load_acquire(&commit->status)) != SB_STATUS_ABORTED)
                return;
        for (i = 0; i < commit->write_count; i++)
                look->listed += held_aborted(sb_version_at(look->segment, commit->write[i]));
}

static void check_block(struct look *look, uint32_t unit, uint64_t word, uint64_t at, uint64_t size)
{
        struct sb_check_report *report = look->report;
        struct sb_block *block = sb_block_at(look->segment, at);
        enum sb_unit_kind kind = SB_UNIT_KIND(word);
        uint32_t retire = sb_load_acquire(&block->retire); /* A:retire. */

        report->blocks_used++;
        report->bytes_used += size;
        if (kind == SB_UNIT_VERSIONS || kind == SB_UNIT_LARGE)
                count_held(look, at, retire);
        if (retire >= SB_ERA_MIN && retire < SB_RETIRE_FREEING && era_ahead(look, retire))
                problem(look, "unit %u: the block at offset %llu is dated in an era to come", unit,
                        (unsigned long long)at);
        if (retire >= SB_RETIRE_FREEING && unnoted(look, block, at, kind)) {
                report->blocks_lost++;
                problem(look,
                        "unit %u: the block at offset %llu is in the hands of nobody who says so",
                        unit, (unsigned long long)at);
        } else if (sb_reach_published(look->peer, at, kind)) {
                /* A:retire. */
                report->blocks_waiting +=
                        kind != SB_UNIT_GUARDS && sb_load_acquire(&block->retire) != 0;
        } else if (lost(look, unit, at, kind)) {
                report->blocks_lost++;
                problem(look, "unit %u: the block at offset %llu is lost", unit,
                        (unsigned long long)at);
        } else {
                report->blocks_private++;
        }
}

/* Bits where no block can be, and not because somebody took the unit and gave it back in between.
 */
static bool stray_bits(
        struct look *look, uint32_t unit, uint32_t index, uint64_t word, uint64_t valid)
{
        uint32_t tries;

        for (tries = 0; tries < 3; tries++)
                /* A:block-taken, A:unit-owned. */
                if (!(sb_load_acquire(&sb_slab_bitmap(look->segment, unit)[index]) & ~valid) ||
                        sb_load_acquire(&look->segment->unit_words[unit]) != word)
                        return false;
        return true;
}

static void check_bits(struct look *look, uint32_t unit, uint64_t word)
{
        struct sb_segment *segment = look->segment;
        enum sb_unit_kind kind = SB_UNIT_KIND(word);
        bool vacant = kind == SB_UNIT_FREE || kind >= SB_UNIT_PART;
        uint32_t count = vacant ? 0 : sb_slab_block_count(segment, word), base;
        uint64_t size = kind == SB_UNIT_LARGE ? (uint64_t)sb_slab_large_units(segment, unit)
                                                        << segment->unit_shift
                        : vacant ? segment->geometry.unit_size
                                 : segment->class_size[SB_UNIT_CLASS(word)];

        for (base = 0; base / 64 < segment->geometry.bitmap_stride / 8; base += 64) {
                uint64_t valid = base >= count        ? 0
                                 : count - base >= 64 ? UINT64_MAX
                                                      : (UINT64_C(1) << (count - base)) - 1;
                uint64_t bits, now;

                sb_pin(look->peer);
                do {
                        /* A:block-taken. */
                        bits = sb_load_acquire(&sb_slab_bitmap(segment, unit)[base / 64]);
                        /* A:unit-owned. */
                        now = sb_load_acquire(&segment->unit_words[unit]);
                        /* as a sweep does: then it keeps its kind as long as we are pinned */
                } while (!sb_pin_covers(look->peer));
                if (now != word)
                        bits = 0; /* it changed hands: whoever has it now is at work */
                if ((bits & ~valid) && stray_bits(look, unit, base / 64, word, valid))
                        problem(look, "unit %u: bits are set where no block is", unit);
                for (bits &= valid; bits; bits &= bits - 1)
                        check_block(look, unit, word,
                                sb_unit_offset(segment, unit) +
                                        (base + (uint32_t)__builtin_ctzll(bits)) * size,
                                size);
                sb_unpin(look->peer);
        }
}

static void check_units(struct look *look)
{
        struct sb_segment *segment = look->segment;
        struct sb_check_report *report = look->report;
        uint32_t unit;

        for (unit = 0; unit < segment->geometry.unit_count; unit++) {
                uint64_t word = sb_load_acquire(&segment->unit_words[unit]); /* A:unit-owned. */
                enum sb_unit_kind kind = SB_UNIT_KIND(word);
                uint64_t used = report->bytes_used;

                if (kind > SB_UNIT_EMPTY ||
                        (kind && kind < SB_UNIT_LARGE &&
                                SB_UNIT_CLASS(word) >= segment->class_count) ||
                        (kind == SB_UNIT_PART &&
                                ((uint32_t)word >= unit || orphaned(look, unit, word))) ||
                        (kind == SB_UNIT_EMPTY && era_ahead(look, SB_UNIT_ERA(word)))) {
                        problem(look, "unit %u: its word %llx makes no sense", unit,
                                (unsigned long long)word);
                        continue;
                }
                /* A:unit-owned. */
                if (owned(word) && !owner_alive(look, word) &&
                        sb_load_acquire(&segment->unit_words[unit]) == word && look->quiescent)
                        problem(look, "unit %u belongs to a client that is gone", unit);
                check_bits(look, unit, word);
                if (kind == SB_UNIT_FREE || kind == SB_UNIT_EMPTY)
                        report->units_free++;
                else
                        report->units_used++;
                if (kind != SB_UNIT_PART && kind != SB_UNIT_LARGE)
                        report->bytes_free +=
                                segment->geometry.unit_size - (report->bytes_used - used);
        }
}

/* ---- client records ---- */

static void check_client(struct look *look, uint32_t slot)
{
        struct sb_segment *segment = look->segment;
        struct sb_client *client = sb_client_at(segment, slot);
        enum sb_client_state state = sb_slot_state(segment, slot, NULL);
        uint64_t high = sb_load_acquire(&client->guard_high), at; /* A:guard. */
        uint32_t i;

        if (state > SB_CLIENT_DEAD) {
                problem(look, "client %u: its state makes no sense", slot);
                return;
        }
        if (high > SB_GUARDS_MAX) {
                problem(look, "client %u: more guards than there can be", slot);
                high = 0;
        }
        look->report->clients += state == SB_CLIENT_ATTACHED;
        look->report->pinned += sb_load_acquire(&client->pin) != 0; /* A:pins. */
        for (i = 0; i < segment->geometry.snapshot_count; i++)
                look->report->snapshots +=
                        sb_load_acquire(&sb_client_snapshots(client)[i]) != 0; /* A:announce. */
        for (i = 0; i < high; i++) {
                at = sb_guard_read(segment, client, i);
                look->report->guards += at != 0;
                if (at && look->quiescent &&
                        !sb_slab_is_block(segment, at, SB_UNIT_VERSIONS, NULL) &&
                        !sb_slab_is_block(segment, at, SB_UNIT_NODES, NULL))
                        problem(look, "client %u: guard %u holds what is no block", slot, i);
        }
        /* A:pins, A:operation. */
        if (state == SB_CLIENT_FREE && look->quiescent &&
                (sb_load_acquire(&client->pin) || sb_load_acquire(&client->operation)))
                problem(look, "client %u is free but pinned, or in an operation", slot);
}

int sb_check(struct sb_peer *peer, bool quiescent, struct sb_check_report *ret)
{
        struct sb_segment *segment = &peer->segment, again;
        struct sb_superblock *super = segment->super;
        struct look look = {
                .peer = peer, .segment = segment, .report = ret, .quiescent = quiescent};
        /* A:safe, A:clock. */
        uint64_t safe = sb_load_acquire(&super->safe), clock = sb_load_acquire(&super->clock);
        uint32_t slot, era = sb_load_acquire(&super->era); /* A:era. */

        memset(ret, 0, sizeof(*ret));
        if (sb_segment_open(segment->base, segment->geometry.size, segment->os, &again))
                return -EBADMSG;
        if (safe >= clock || clock & SB_STAMP_INTENT)
                problem(&look, "clock %llu and safe %llu make no sense", (unsigned long long)clock,
                        (unsigned long long)safe);
        if (era < SB_ERA_MIN || era > SB_ERA_MAX)
                problem(&look, "era %u makes no sense", era);
        check_order(&look);
        if (!ret->problem_count)
                check_buckets(&look);
        if (!ret->problem_count)
                check_units(&look);
        if (!ret->problem_count && look.quiescent && look.held != look.listed && !any_noted(&look))
                problem(&look, "%llu versions are held, transactions list %llu",
                        (unsigned long long)look.held, (unsigned long long)look.listed);
        for (slot = 0; slot < segment->geometry.client_count; slot++)
                check_client(&look, slot);
        return 0;
}
