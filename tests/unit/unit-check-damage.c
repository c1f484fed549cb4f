/*
 * Damage that the validator finds (shm/upkeep/check.h): each kind is done to a sound bus, one at a
 * time, and is told in the sentence that is meant for it, and once.
 */
#include "ring/op/prefix.h"
#include "ring/op/watch.h"
#include "shm/base/word.h"
#include "shm/keys/branch.h"
#include "shm/keys/index.h"
#include "shm/keys/order.h"
#include "shm/layout/block.h"
#include "shm/layout/record.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/upkeep/check.h"
#include "tests/unit/chain.h"
#include "tests/unit/checked.h"

#define CASES 85u

/* Where the key "k" is. */
struct place {
        struct sb_version *head;
        struct sb_node *node, *before;
};

/* Do one kind of damage to a chain or to the ordered index. Return: what it is told as. */
static const char *damage_links(uint32_t number, const struct place *at)
{
        struct sb_segment *s = &writer.segment;
        struct sb_version *head = at->head;
        struct sb_node *node = at->node, *other = at->before;
        struct sb_word64 *slot = slot_of(node);

        switch (number) {
        case 0:
                sb_store_relaxed(&s->super->stable, sb_load_relaxed(&s->super->clock));
                return "make no sense";
        case 1:
                sb_store_relaxed(&s->super->era, SB_ERA_MIN - 1);
                return "makes no sense";
        case 2: /* a node is passed over */
                sb_store_relaxed(slot, sb_load_relaxed(slot) & ~(SB_OFFSET_MASK | SB_SLOT_LEAF));
                return "its node is not in the ordered index";
        case 3:
                sb_store_relaxed(slot, SB_SLOT_TO(sb_load_relaxed(slot), 16 | SB_SLOT_LEAF));
                return "a slot leads to no node with a key, and no branch";
        case 4:
                node->key_len = 0;
                return "its key length is wrong";
        case 5:
                memset(node->key, 0xff, 1);
                memset(head->bytes, 0xff, 1);
                return "its key does not lead to it";
        case 6:
                sb_store_relaxed(&node->cell, sb_load_relaxed(&other->cell));
                return "its cell is another key's";
        case 7:
                sb_store_relaxed(&node->cell, 15);
                return "it names no cell";
        case 8:
                head->node = sb_offset_of(s, head);
                return "its cell is another key's";
        case 9:
                head->bytes[0] ^= 1;
                return "version and node have different keys";
        case 10:
                sb_store_relaxed(&head->stamp, sb_load_relaxed(&s->super->clock) + 1);
                return "a stamp is ahead of the clock";
        default:
                return NULL;
        }
}

/* The same to blocks, units and records. */
static const char *damage_memory(uint32_t number, const struct place *at)
{
        struct sb_segment *s = &writer.segment;
        struct sb_version *head = at->head;
        uint64_t offset;

        switch (number) {
        case 11:
                sb_store_relaxed(&head->block.retire, sb_load_relaxed(&s->super->era));
                return "its newest version is on its way out";
        case 12:
                sb_store_relaxed(&head->block.retire, SB_RETIRE_FREEING | 3);
                return "is in hand";
        case 13:
                sb_or_full(&sb_unit_bitmap(s, s->geometry.unit_count - 1)[0], 4);
                return "bits are set where no block is";
        case 14:
                sb_store_relaxed(&s->unit_words[s->geometry.unit_count - 1], UINT64_C(9) << 60);
                return "makes no sense";
        case 15: /* a block is taken and its slab forgotten */
                if (sb_slab_take(&reader, SB_UNIT_VERSIONS, 700, 0, &offset))
                        return NULL;
                sb_and_full(&s->unit_words[sb_unit_of(s, offset)], UINT64_C(0xffc) << 52);
                return "is lost";
        case 16:
                sb_store_relaxed(&sb_record_at(s, 4)->tag, 7);
                return "its state makes no sense";
        case 17:
                sb_store_relaxed(&sb_record_at(s, 2)->guard_high, SB_GUARDS_MAX + 1);
                return "more guards than there can be";
        case 18:
                sb_store_relaxed(&sb_record_at(s, 3)->guard_high, UINT64_MAX);
                return "more guards than there can be";
        case 19:
                sb_store_relaxed(&at->node->block.retire, sb_load_relaxed(&s->super->era));
                return "it is linked and dated";
        case 20:
                sb_pin(&writer);
                sb_roster_unlist(s, writer.slot);
                return "is in use and not in the roster";
        case 21:
                list_records(4, 5);
                return "is free and in the roster";
        case 22:
                sb_store_relaxed(&sb_record_at(s, 4)->pin, SB_PIN(16, 0));
                return "is free but pinned";
        default:
                return NULL;
        }
}

/* The same to the order of two versions of a key. */
static const char *damage_descent(uint32_t number)
{
        struct sb_version *version;
        uint64_t stamp = sb_load_relaxed(&writer.segment.super->clock);

        sb_pin(&writer);
        version = push("k", SB_VERSION_VALUE, number == 23 ? 1 : stamp);
        sb_unpin(&writer);
        if (!version || stamp < 2)
                return NULL;
        if (number == 23)
                return "stamps do not descend";
        version->rev--;
        return "revisions do not descend";
}

/* The same to the intent of a transaction, or to what was one. */
static const char *damage_intent(uint32_t number, const struct place *at)
{
        uint64_t clock = sb_load_relaxed(&writer.segment.super->clock);
        struct sb_descriptor *commit = make_descriptor(1, 1, 0);
        struct sb_version *version;

        if (!commit)
                return NULL;
        sb_pin(&writer);
        version =
                push("k", number == 26 ? SB_VERSION_VALUE : SB_VERSION_HAS_TXN, intent_of(commit));
        sb_unpin(&writer);
        if (!version)
                return NULL;
        switch (number) {
        case 25:
                sb_store_relaxed(&version->stamp, SB_STAMP_INTENT);
                return "a stamp makes no sense";
        case 26:
                return "an intent has no transaction's number";
        case 27:
                sb_store_relaxed(
                        &version->stamp, SB_STAMP_INTENT | sb_offset_of(&writer.segment, at->head));
                return "an intent names no transaction";
        case 28:
                sb_store_relaxed(&commit->status, SB_STATUS_ABORTED + 1);
                return "an intent names no transaction";
        case 29:
                sb_pin(&writer);
                version = push("k", SB_VERSION_VALUE, clock);
                sb_unpin(&writer);
                return version ? "an intent was replaced before it was decided" : NULL;
        case 30:
                sb_store_relaxed(&version->stamp, SB_STAMP_ABORTED);
                sb_store_relaxed(&version->prev, sb_offset_of(&writer.segment, version));
                return "the chain is endless";
        case 31:
                sb_store_relaxed(&version->stamp, SB_STAMP_ABORTED);
                sb_store_relaxed(&version->block.retire, SB_RETIRE_HELD);
                return "1 versions are held, transactions list 0";
        case 32: /* it is listed, and held no more */
                sb_store_relaxed(&version->stamp, SB_STAMP_ABORTED);
                sb_store_relaxed(&version->block.retire, SB_RETIRE_HELD);
                commit->write[0] = sb_offset_of(&writer.segment, version);
                sb_store_relaxed(&commit->status, SB_STATUS_COMMITTED);
                sb_store_relaxed(&commit->block.retire, SB_RETIRE_DYING);
                return "1 versions are held, transactions list 0";
        case 33: /* a transaction that is not over lists what is held itself */
                sb_store_relaxed(&version->stamp, SB_STAMP_ABORTED);
                sb_store_relaxed(&version->block.retire, SB_RETIRE_HELD);
                commit->write[0] = sb_offset_of(&writer.segment, version);
                sb_store_relaxed(&commit->status, SB_STATUS_ABORTED);
                return "1 versions are held, transactions list 0";
        default:
                return NULL;
        }
}

/* The same to what lies in a chain, below the newest version or as that. */
static const char *damage_chain(uint32_t number, const struct place *at)
{
        struct sb_segment *s = &writer.segment;
        struct sb_version *below = at->head, *head;

        sb_pin(&writer);
        head = push("k", SB_VERSION_VALUE, sb_load_relaxed(&s->super->clock));
        sb_unpin(&writer);
        if (!head)
                return NULL;
        switch (number) {
        case 34:
                sb_store_relaxed(&head->prev, sb_offset_of(s, at->node));
                return "the chain leads to what is no version";
        case 35:
                sb_store_relaxed(&head->prev, s->geometry.size);
                return "the chain leads out of the segment";
        case 36:
                sb_store_relaxed(&head->prev, sb_offset_of(s, below) | SB_PREV_MARKED);
                return "the newest version is on its way out";
        case 37:
                below->shape = SB_SHAPE(4096, 1, SB_VERSION_VALUE, 0);
                return "key and value do not fit their block";
        case 38:
                below->shape = SB_SHAPE(1, 0, SB_VERSION_VALUE, 0);
                return "key and value do not fit their block";
        case 39:
                below->node = sb_offset_of(s, at->before);
                return "a version of another key is in the chain";
        case 40:
                sb_store_relaxed(&below->block.retire, sb_load_relaxed(&s->super->era));
                return "a version in the chain is dated";
        case 41:
                sb_store_relaxed(&below->block.birth, sb_load_relaxed(&s->super->era) + 1);
                return "a version is born in an era to come";
        default:
                return NULL;
        }
}

/* The same to a cell and the node of its key. */
static const char *damage_head(uint32_t number, const struct place *at)
{
        struct sb_segment *s = &writer.segment;
        struct sb_version *head = at->head;
        struct sb_node *node = at->node;
        struct sb_word64 *cell = sb_cell_at(s, sb_load_relaxed(&node->cell));
        uint64_t word = sb_load_relaxed(cell);
        uint32_t bucket, index;

        switch (number) {
        case 42: /* another cell says what this one says; no node names it, so it comes first here
                  */
                bucket = (uint32_t)(sb_load_relaxed(&node->cell) / 8 - 1);
                for (index = 0; index < SB_BUCKET_CELLS; index++)
                        if (!sb_load_relaxed(&s->buckets[bucket].cell[index]))
                                sb_store_relaxed(&s->buckets[bucket].cell[index], word);
                return "its node names another cell";
        case 43: /* a bucket on which no lookup of the key comes by */
                for (bucket = 0; bucket < s->geometry.bucket_count; bucket++)
                        if (!sb_load_relaxed(&s->buckets[bucket].cell[0]))
                                sb_store_relaxed(&s->buckets[bucket].cell[0], word);
                return "the key does not belong in this bucket";
        case 44:
                node->hash ^= 1;
                return "the key does not belong in this bucket";
        case 45:
                sb_store_relaxed(cell, word ^ UINT64_C(1) << 50);
                return "the key does not belong in this bucket";
        case 46: /* another node has its slot */
                sb_store_relaxed(
                        slot_of(node), SB_SLOT_TO(sb_load_relaxed(slot_of(node)),
                                               SB_SLOT_LINK(sb_load_relaxed(slot_of(at->before)))));
                return "it is out of order";
        case 47:
                head->shape = SB_SHAPE(0, 0, SB_VERSION_VALUE, 0);
                return "its version has impossible lengths";
        case 48: /* while the node itself leaves: else the walk of the nodes sees it */
                sb_store_relaxed(slot_of(node),
                        sb_load_relaxed(slot_of(node)) & ~(SB_OFFSET_MASK | SB_SLOT_LEAF));
                head->node = sb_offset_of(s, head);
                return "its version names no node";
        default:
                return NULL;
        }
}

/* The same to branches of the ordered index, and to units. */
static const char *damage_branches_or_units(uint32_t number, const struct place *at)
{
        struct sb_segment *s = &writer.segment;
        uint32_t unit = sb_unit_of(s, sb_offset_of(s, at->head)), last = s->geometry.unit_count - 1;
        struct sb_word64 *slot = slot_of(at->node);
        uint64_t root = sb_load_relaxed(&s->super->order), word = sb_load_relaxed(slot);
        struct sb_node *node = at->node;
        struct sb_branch_view view;

        switch (number) {
        case 49:
                sb_store_relaxed(slot, SB_SLOT_TO(word, root));
                return "a slot leads to no node with a key, and no branch";
        case 50: /* the symbol of the first slot, and no leaf */
                if (!sb_branch_view(s, root, 0, &view))
                        return NULL;
                word = sb_load_relaxed(&view.branch->slot[0]);
                sb_store_relaxed(
                        &view.branch->slot[view.slots - 1], SB_SLOT(SB_SLOT_SYMBOL(word) - 1, 0));
                return "two slots have one symbol";
        case 51:
                if (!sb_branch_view(s, root, 0, &view))
                        return NULL;
                sb_store_relaxed(&view.branch->slot[view.slots - 1], SB_SLOT_LEAF);
                return "a slot without a symbol is not free";
        case 52: /* no client has such a record */
                sb_store_relaxed(&s->unit_words[unit],
                        (sb_load_relaxed(&s->unit_words[unit]) & UINT64_C(0xffc) << 52) |
                                (uint64_t)(s->geometry.record_count + 1) << 32 | 1);
                return "belongs to a client that is gone";
        case 53: /* the last record is free */
                sb_store_relaxed(&s->unit_words[unit],
                        (sb_load_relaxed(&s->unit_words[unit]) & UINT64_C(0xffc) << 52) |
                                (uint64_t)s->geometry.record_count << 32);
                return "belongs to a client that is gone";
        case 54: /* an earlier life of this client */
                sb_store_relaxed(&s->unit_words[unit],
                        (sb_load_relaxed(&s->unit_words[unit]) & UINT64_C(0xffc) << 52) |
                                (uint64_t)(writer.slot + 1) << 32 | (writer.generation - 1));
                return "belongs to a client that is gone";
        case 55: /* a part of what is no large block */
                sb_store_relaxed(&s->unit_words[last], (uint64_t)SB_UNIT_PART << 60 | unit);
                return "makes no sense";
        case 56: /* empty since an era to come */
                sb_store_relaxed(&s->unit_words[last],
                        SB_UNIT_EMPTY_WORD(0, 0, sb_load_relaxed(&s->super->era) + 1));
                return "makes no sense";
        case 57:
                sb_store_relaxed(&s->unit_births[unit], sb_load_relaxed(&s->super->era) + 1);
                return "was born in an era to come";
        case 58: /* notes that are not cleared behind an operation */
                sb_store_relaxed(&writer.record->operation, sb_offset_of(s, node));
                return "is not pinned but in an operation";
        case 59:
                sb_store_relaxed(&sb_record_at(s, s->geometry.record_count - 1)->freeing,
                        sb_offset_of(s, at->head));
                return "is free but pinned, or frees a block";
        default:
                return NULL;
        }
}

/* A client watches the key. */
static struct sb_ring *watched(const struct place *at)
{
        static struct sb_op_watch watch;

        if (sb_op_watch_begin(&writer, "k", 1, 5, SB_WATCH_DEPTH, SB_WATCH_VERSIONS, &watch))
                return NULL;
        return (struct sb_ring *)sb_block_at(&writer.segment, sb_load_relaxed(&at->node->ring));
}

/* The same to the ring of the key. */
static const char *damage_ring(uint32_t number, const struct place *at)
{
        struct sb_segment *s = &writer.segment;
        struct sb_ring *ring = watched(at);
        struct sb_word64 *cell = sb_cell_at(s, sb_load_relaxed(&at->node->cell));

        if (!ring)
                return NULL;
        switch (number) {
        case 60:
                sb_store_relaxed(&at->node->ring, 0);
                return "it is watched, and has no ring";
        case 61:
                sb_store_relaxed(&at->node->ring, sb_offset_of(s, at->head));
                return "its ring is none";
        case 62:
                sb_store_relaxed(&at->node->ring, UINT64_C(1) << 43);
                return "its ring is none";
        case 63:
                ring->node = sb_offset_of(s, at->before);
                return "its ring is another key's";
        case 64:
                ring->slot_count = 1u << 30;
                return "its ring is none";
        case 65:
                ring->watcher_count = UINT32_MAX;
                return "its ring is none";
        case 66:
                ring->slot_count = 0;
                return "its ring is none";
        case 67:
                sb_store_relaxed(&ring->words[3], UINT64_C(1) << 43);
                return "a slot of its ring leads out of the segment";
        case 68:
                sb_store_relaxed(&ring->words[SB_WATCH_DEPTH + 2],
                        SB_WATCHER(s->geometry.record_count, 0, 1));
                return "an entry of its ring names no client";
        case 69:
                sb_store_relaxed(&ring->more, sb_offset_of(s, at->head));
                return "its ring leads to what is no block of watchers";
        case 70:
                sb_store_relaxed(&ring->more, sb_offset_of(s, ring));
                return "the blocks of its ring go round";
        case 71:
                sb_store_relaxed(cell, sb_load_relaxed(cell) & ~SB_CELL_WATCHED);
                return "a watch stands, and its cell does not say so";
        case 72:
                sb_store_relaxed(&ring->state, sb_load_relaxed(&ring->state) | SB_TURN_CLOSED);
                return "a watch stands, and its cell does not say so";
        default:
                return NULL;
        }
}

/* The same to the ring of a watched prefix, with hints in it. */
static const char *damage_hints(uint32_t number, const struct place *at)
{
        struct sb_segment *s = &writer.segment;
        static struct sb_op_prefix watch, deeper;
        struct sb_ring *ring;

        if (sb_op_prefix_begin(&writer, "k", 1, 5, 16, &watch))
                return NULL;
        for (uint32_t i = 0; i < 100; i++)
                if (put(&writer, "k", "2", 1))
                        return NULL;
        settle();
        if (sb_check(&reader, true, &report) || report.problem_count)
                return NULL;
        ring = watch.watch.ring.ring;
        switch (number) {
        case 73:
                sb_store_relaxed(&ring->words[3], UINT64_C(1) << 43);
                return "a hint of its ring names no cell";
        case 74:
                sb_store_relaxed(&ring->tail, 0);
                return "the tail of its ring is behind its hints";
        case 75:
                sb_store_relaxed(&ring->tail, sb_load_relaxed(&ring->tail) - 2);
                return "the tail of its ring is behind its hints";
        case 76:
                sb_store_relaxed(&ring->tail, sb_load_relaxed(&ring->tail) + 2);
                return "the tail of its ring is before its hints";
        case 77:
                sb_store_relaxed(&ring->tail, UINT64_MAX / 2);
                return "the tail of its ring is ";
        case 78:
                sb_store_relaxed(&ring->given, sb_load_relaxed(&s->super->clock) + 1);
                return "its ring gives up what is to come";
        case 79:
                sb_store_relaxed(&ring->mark, UINT64_MAX);
                return "its ring gives up what is to come";
        case 80:
                ring->hints = 0;
                return "a slot of its ring"; /* its hints are no offsets */
        case 81:                             /* of a key that is no prefix */
                ring = watched(at);
                if (!ring)
                        return NULL;
                ring->hints = 1;
                return "its ring has hints, and it is no prefix";
        case 82:
                ring->slot_count = 1;
                return "its ring";
        case 83: /* of a deeper watch, which has its own row */
                if (sb_op_prefix_begin(&reader, "k", 1, 5, 64, &deeper) || deeper.row.ring == ring)
                        return NULL;
                sb_store_relaxed(&deeper.row.ring->mark, UINT64_MAX);
                return "its ring gives up what is to come";
        case 84:
                writer.segment.super->held_units = writer.segment.geometry.unit_count + 1;
                return "units held back of";
        default:
                return NULL;
        }
}

static const char *damage(uint32_t number)
{
        struct place at = {0};
        struct sb_spot spot;

        sb_pin(&writer);
        if (sb_key_find(&writer, "k", 1, hash_of("k", 1), &spot)) {
                at.head = spot.head;
                at.node = sb_node_at(&writer.segment, spot.head->node);
                at.before = sb_order_find(&writer, "a", 1);
        }
        sb_unpin(&writer);
        if (!at.node || !at.before)
                return NULL;
        return number <= 10   ? damage_links(number, &at)
               : number <= 22 ? damage_memory(number, &at)
               : number <= 24 ? damage_descent(number)
               : number <= 33 ? damage_intent(number, &at)
               : number <= 41 ? damage_chain(number, &at)
               : number <= 48 ? damage_head(number, &at)
               : number <= 59 ? damage_branches_or_units(number, &at)
               : number <= 72 ? damage_ring(number, &at)
                              : damage_hints(number, &at);
}

static void test_each_kind_of_damage_is_found_and_named(void)
{
        for (uint32_t i = 0; i < CASES; i++) {
                const char *words;

                CHECK(make_bus_for(1 << 20, 5));
                CHECK(!put(&writer, "a", "1", 1) && !put(&writer, "k", "1", 1) &&
                        !put(&writer, "z", "1", 1));
                settle();
                CHECK(!sb_check(&reader, true, &report) && !report.problem_count);
                words = damage(i);
                CHECK(words);
                CHECK_EQ(sb_check(&reader, true, &report), 0);
                if (!report.problem_count || !strstr(report.problems[0], words))
                        TEST_FAIL("case %u, %u findings: %s", i, report.problem_count,
                                report.problem_count ? report.problems[0] : "");
                unmake_bus();
        }
}

/* A word in the block says which client frees it: any number, in a damaged one. */
static void test_a_block_that_is_in_no_clients_hand_is_not_being_freed(void)
{
        for (uint32_t i = 0; i < 4; i++) {
                uint32_t count, slots[4];
                struct sb_block *block;
                uint64_t at;

                CHECK(make_bus_for(1 << 20, 5));
                count = writer.segment.geometry.record_count;
                slots[0] = count - 1;
                slots[1] = count;
                slots[2] = UINT32_MAX - SB_RETIRE_FREEING;
                slots[3] = 0;
                CHECK(!put(&writer, "k", "1", 1));
                CHECK(!sb_slab_take(&reader, SB_UNIT_VERSIONS, 700, 0, &at));
                block = sb_block_at(&reader.segment, at);
                sb_store_relaxed(&block->retire, SB_RETIRE_FREEING + slots[i]);
                CHECK_EQ(sb_check(&writer, false, &report), 0);
                CHECK_EQ(report.problem_count, 1);
                CHECK(strstr(report.problems[0], "is in hand"));
                unmake_bus();
        }
}

/* Its client has noted it, as one does that frees a branch; but it is linked. */
static void test_a_branch_that_is_in_a_clients_hand_is_linked_nowhere(void)
{
        for (uint32_t slot = 0; slot < 2; slot++) {
                struct sb_segment *s;
                uint64_t at;

                CHECK(make_bus_for(1 << 20, 5));
                CHECK(!put(&writer, "a", "1", 1) && !put(&writer, "k", "1", 1));
                settle();
                s = &writer.segment;
                at = sb_load_relaxed(&s->super->order) & SB_OFFSET_MASK;
                sb_store_relaxed(&sb_record_at(s, slot)->freeing, at);
                sb_store_relaxed(
                        &((struct sb_block *)sb_block_at(s, at))->retire, SB_RETIRE_FREEING + slot);
                CHECK_EQ(sb_check(&reader, false, &report), 0);
                CHECK_EQ(report.problem_count, 1);
                CHECK(strstr(report.problems[0], "it is linked and dated"));
                unmake_bus();
        }
}

static void test_a_large_version_that_is_held_is_counted_as_held(void)
{
        struct sb_version *version;
        static char large[200000];

        CHECK(make_bus_for(4 << 20, 5));
        CHECK(!put(&writer, "k", large, sizeof(large)));
        settle();
        sb_pin(&reader);
        CHECK((version = find("k")));
        CHECK_EQ(SB_UNIT_KIND(sb_unit_word(&writer.segment,
                         sb_unit_of(&writer.segment, sb_offset_of(&writer.segment, version)))),
                SB_UNIT_LARGE);
        sb_unpin(&reader);
        sb_store_relaxed(&version->stamp, SB_STAMP_ABORTED);
        sb_store_relaxed(&version->block.retire, SB_RETIRE_HELD);
        CHECK_EQ(sb_check(&reader, true, &report), 0);
        CHECK_EQ(report.problem_count, 1);
        CHECK(strstr(report.problems[0], "1 versions are held, transactions list 0"));
        unmake_bus();
}

/* Behind the first problem of the ordered index the look at it is over: what is met from there on
 * would be told again and again. */
static void test_an_index_that_is_unsound_is_told_once(void)
{
        struct sb_node *node, *first;

        for (uint32_t suspects = 0; suspects < 2; suspects++) {
                CHECK(make_bus_for(1 << 20, 5));
                CHECK(!put(&writer, "a", "1", 1) && !put(&writer, "h", "1", 1));
                settle();
                sb_pin(&writer);
                CHECK((first = sb_order_find(&writer, "a", 1)));
                CHECK((node = sb_order_find(&writer, "h", 1)));
                sb_unpin(&writer);
                if (suspects)
                        sb_store_relaxed(
                                &first->block.retire, sb_load_relaxed(&writer.segment.super->era));
                node->key_len = 0;
                CHECK_EQ(sb_check(&reader, false, &report), 0);
                CHECK_EQ(report.problem_count, 1);
                CHECK(strstr(report.problems[0],
                        suspects ? "it is linked and dated" : "its key length is wrong"));
                unmake_bus();
        }
}

static void test_a_superblock_that_is_unusable_is_another_matter(void)
{
        CHECK(make_bus(1 << 20));
        writer.segment.super->geometry.unit_count++;
        CHECK(sb_check(&reader, true, &report) < 0);
        unmake_bus();
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_each_kind_of_damage_is_found_and_named);
        RUN(test_a_block_that_is_in_no_clients_hand_is_not_being_freed);
        RUN(test_a_branch_that_is_in_a_clients_hand_is_linked_nowhere);
        RUN(test_a_large_version_that_is_held_is_counted_as_held);
        RUN(test_an_index_that_is_unsound_is_told_once);
        RUN(test_a_superblock_that_is_unusable_is_another_matter);
        return test_end();
}
