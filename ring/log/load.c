/*
 * Loading; see load.h. A version is placed like a write: a block, the key made where there is none,
 * the CAS of its cell. It differs in what it knows: revision and stamp are given, no reader can
 * hold what it replaces, and no watch waits for it.
 */

#include "ring/log/load.h"

#include <errno.h>
#include <string.h>

#include "shm/base/fault.h"
#include "shm/base/hash.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/history/rules.h"
#include "shm/history/times.h"
#include "shm/keys/index.h"
#include "shm/keys/node.h"
#include "shm/keys/order.h"
#include "shm/keys/sorted.h"
#include "shm/layout/block.h"
#include "shm/layout/handle.h"
#include "shm/layout/record.h"
#include "shm/layout/reserved.h"
#include "shm/layout/segment.h"
#include "shm/layout/superblock.h"
#include "shm/memory/limbo.h"
#include "shm/memory/pin.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "shm/memory/window.h"
#include "shm/mvcc/clock.h"
#include "shm/mvcc/find-plain.h"
#include "shm/mvcc/find.h"
#include "shm/upkeep/horizon.h"
#include "shm/upkeep/key.h"
#include "shm/upkeep/move.h"
#include "shm/upkeep/reclaim.h"
#include "shm/upkeep/stable.h"
#include "shm/upkeep/work.h"

/* A chain of which a rule keeps the last versions is looked through once in so many. */
#define LOOK_EVERY 64u
/* Shares of moving for one version. In each, some 64 versions move. */
#define MOVES_MAX 4096u
/* Revisions end below what words with signs take. */
#define REV_MAX (SB_STAMP_INTENT - 2)

/* One version on its way. */
struct attempt {
        const struct sb_load_version *version;
        uint64_t hash;
        uint64_t block; /* offset; 0 once it is in its chain */
        struct sb_key_supplies supplies;
};

/* ---- what comes from outside ---- */

/* Return: 0, or why the version cannot be any. */
static int load_check(const struct sb_load *load, const struct sb_load_version *version)
{
        const struct sb_segment *segment = &load->handle->segment;
        bool deleted = version->kind == SB_VERSION_DELETED;

        if (!version->key_len || (!deleted && version->kind != SB_VERSION_VALUE) ||
                (deleted && version->value_len) || !version->rev || version->rev > REV_MAX ||
                version->stamp <= SB_STAMP_PLACEHOLDER || version->stamp > SB_LOAD_CUT_MAX ||
                version->slot > SB_SHAPE_WRITER(UINT64_MAX))
                return -EINVAL;
        if (version->key_len > segment->key_len_max || version->value_len > segment->value_len_max)
                return -EMSGSIZE;
        return load->cut && version->stamp > load->cut ? -EBADMSG : 0;
}

/* Whether the reading that is going on passes over this key. */
static bool load_passes(const struct sb_load *load, const struct sb_load_version *version)
{
        return sb_reserved_is(version->key, version->key_len) == (load->cut != 0);
}

/* Return: 1: the version is newer than @newest, the key's newest; 0: it is not; -EBADMSG. */
static int load_compare(
        const struct sb_load_version *version, const struct sb_version *newest, uint64_t stamp)
{
        if (SB_SHAPE_KIND(newest->shape) == SB_VERSION_PLACEHOLDER)
                return 1;
        if (version->rev == newest->rev)
                return version->stamp == stamp ? 0 : -EBADMSG;
        if (version->rev > newest->rev)
                return version->stamp >= stamp ? 1 : -EBADMSG;
        return version->stamp <= stamp ? 0 : -EBADMSG;
}

/* ---- the version ---- */

static uint64_t load_shape(const struct sb_load_version *version)
{
        return SB_SHAPE(version->value_len, version->key_len,
                version->kind | (version->txn ? SB_VERSION_HAS_TXN : 0), version->slot);
}

/* The numbers that this client of before has given are not given again. Relaxed: no other process
 * runs. */
static void load_count_on(const struct sb_segment *segment, uint64_t number)
{
        uint64_t slot = (number >> 48) - 1, count = number & ((UINT64_C(1) << 48) - 1);
        struct sb_word64 *commits;

        if (slot >= segment->geometry.record_count)
                return;
        commits = &sb_record_at(segment, (uint32_t)slot)->commits;
        if (sb_load_relaxed(commits) < count)
                sb_store_relaxed(commits, count);
}

static struct sb_version *load_fill(struct sb_handle *handle, const struct attempt *attempt,
        const struct sb_version *head, uint64_t link)
{
        const struct sb_load_version *from = attempt->version;
        struct sb_version *version = (struct sb_version *)(handle->segment.base + attempt->block);
        unsigned char *bytes = version->bytes;

        version->rev = from->rev;
        version->node = head->node;
        version->shape = load_shape(from);
        sb_pin_give_birth(handle, &version->block);
        /* Relaxed, both: the version is private until the CAS publishes it. */
        sb_store_relaxed(&version->stamp, from->stamp);
        sb_store_relaxed(&version->prev, link);
        memcpy(bytes, from->key, from->key_len);
        bytes += from->key_len;
        if (from->value_len)
                memcpy(bytes, from->value, from->value_len);
        if (from->txn) {
                memcpy(bytes + from->value_len, &from->txn, SB_TRAILER_TXN);
                load_count_on(&handle->segment, from->txn);
        }
        return version;
}

/* ---- what it replaces ---- */

/* In the first reading: what a version of a rule's key says of the times of rules. */
static void load_note_rule(struct sb_load *load, const struct sb_load_version *version)
{
        struct sb_rule_value value;

        if (load->cut || version->key_len < SB_KEEP_PREFIX ||
                memcmp(version->key, SB_RESERVED_KEEP, SB_KEEP_PREFIX - 1) != 0)
                return;
        if (version->kind == SB_VERSION_DELETED) {
                if (load->rule_went < version->stamp)
                        load->rule_went = version->stamp;
        } else if (version->value_len == sizeof(value)) {
                memcpy(&value, version->value, sizeof(value));
                if (SB_RULE_KIND(value.word) == SB_RULE_NEWEST && load->rule_went < version->stamp)
                        load->rule_went = version->stamp;
                if (load->rules_since < value.since)
                        load->rules_since = value.since;
                load->rule_begins |= !value.since;
        }
}

/* Under a pin: the cut before which no past of a key is kept for the rules that it has. */
static uint64_t load_rules_begin(struct sb_load *load, const struct sb_load_version *version)
{
        struct sb_rule_found found;

        if (!load->forward)
                return sb_rules_uncovered(load->handle, version->key, version->key_len);
        sb_rules_find(load->handle, version->key, version->key_len, false, &found);
        return found.renewed || !found.value.since ? UINT64_MAX : found.value.since;
}

/* Under a pin: whether what the version replaced was gone when the rules of its key began. The bus
 * at its cut does not know a rule that was taken away meanwhile: what that may have kept is no such
 * thing; nor is what a copy of the bus had still. Fault RULES_LOOK_BACK: nothing is. */
static bool load_precedes_rules(struct sb_load *load, const struct sb_load_version *version)
{
        if (version->stamp > load->rules_since || SB_FAULT(RULES_LOOK_BACK) ||
                (!load->forward && (version->copied || version->stamp <= load->rule_went)))
                return false;
        return version->stamp <= load_rules_begin(load, version);
}

/* Whether the version that is replaced stays behind the new one: for a rule, or for a mark. Of the
 * bus's own keys only the newest counts. */
static bool load_keeps(struct sb_load *load, const struct sb_load_version *version,
        const struct sb_spot *spot, uint64_t stamp)
{
        if (!load->cut)
                return false;
        if (!sb_horizon_passed(load->handle, version->stamp, stamp))
                return true;
        return (spot->word & SB_CELL_KEPT) && !load_precedes_rules(load, version);
}

/* The new version's link, over @head, which stays or goes. */
static uint64_t load_link(const struct sb_segment *segment, const struct sb_load_version *version,
        const struct sb_version *head, bool stays)
{
        if (SB_SHAPE_KIND(head->shape) == SB_VERSION_PLACEHOLDER)
                return version->born || version->rev == 1 ? 0 : SB_PREV_TRIMMED;
        if (stays)
                return sb_offset_of(segment, head) |
                       (head->rev + 1 == version->rev ? 0 : SB_PREV_TRIMMED);
        /* Relaxed: no other process runs. */
        return (sb_load_relaxed(&head->prev) & SB_OFFSET_MASK) | SB_PREV_TRIMMED;
}

/* Behind the install: what did not stay is free at once, for no other process has ever seen it. */
static void load_free(struct sb_handle *handle, const struct sb_version *head)
{
        uint64_t at = sb_offset_of(&handle->segment, head);

        if (SB_SHAPE_KIND(head->shape) == SB_VERSION_PLACEHOLDER)
                sb_slab_give_back(handle, at);
        else
                sb_unit_clear(handle, at);
}

/* Whether the rule of a key goes by number, and no delete from this stamp on is let go. */
static bool load_counts(struct sb_handle *handle, const struct sb_load_version *version,
        const struct sb_version *own)
{
        const struct sb_node *node = sb_node_at(&handle->segment, own->node);
        struct sb_keeping keeping;

        sb_rules_keeping(handle, node, 0, &keeping);
        return SB_RULE_KIND(keeping.word) == SB_RULE_LAST && version->stamp > keeping.floor;
}

/* Note what can be shortened, or taken out, later on. Where a rule can let a delete go, nothing is:
 * what the rule says at the cut does not know yet that the tombstone is replaced until then. */
static void load_note(struct sb_handle *handle, const struct sb_load_version *version,
        const struct sb_spot *spot, const struct sb_version *own)
{
        if (!(spot->word & SB_CELL_KEPT)) {
                if (version->kind == SB_VERSION_DELETED)
                        sb_limbo_later(handle, spot->cell_number, version->stamp);
        } else if (version->rev % LOOK_EVERY == 0 && load_counts(handle, version, own)) {
                sb_limbo_later(handle, spot->cell_number, SB_STAMP_PLACEHOLDER + 1);
        }
}

/* The clock is above a stamp before a version has it; fault LOAD_CLOCK_LATE: behind that. */
static void load_raise_clock(struct sb_handle *handle, uint64_t stamp, bool installed)
{
        if (installed == (bool)SB_FAULT(LOAD_CLOCK_LATE))
                sb_clock_resume(handle, stamp);
}

/* Place the version over the head that was found. */
static void load_install(struct sb_load *load, struct attempt *attempt, const struct sb_spot *spot)
{
        struct sb_handle *handle = load->handle;
        struct sb_version *head = spot->head, *version;
        bool placeholder = SB_SHAPE_KIND(head->shape) == SB_VERSION_PLACEHOLDER;
        /* Relaxed: no other process runs. */
        bool stays = !placeholder &&
                     load_keeps(load, attempt->version, spot, sb_load_relaxed(&head->stamp));

        version = load_fill(
                handle, attempt, head, load_link(&handle->segment, attempt->version, head, stays));
        load_raise_clock(handle, attempt->version->stamp, false);
        /* R:publish > A:publish. The new offset, the same tag and flags. */
        sb_cas64_full(spot->cell, spot->word,
                (spot->word & (SB_TAG_MASK | SB_CELL_FLAGS)) | attempt->block);
        attempt->block = 0;
        if (!stays)
                load_free(handle, head);
        load_note(handle, attempt->version, spot, version);
        if (load->newest < attempt->version->stamp)
                load->newest = attempt->version->stamp;
        load_raise_clock(handle, attempt->version->stamp, true);
}

/* ---- one version ---- */

/* Versions that are loaded without another sweep, when one has freed nothing. */
#define SWEEP_REST 4096u

/* What may serve besides blocks of the own size: as in a set, and in a delete. */
static uint32_t load_allow(const struct sb_load *load, const struct sb_load_version *version)
{
        const bool deletes = version->kind == SB_VERSION_DELETED;

        return SB_SLAB_LARGER | (load->borrows || deletes ? SB_SLAB_RESERVE : 0) |
               (deletes && sb_reserved_is(version->key, version->key_len) ? SB_SLAB_OWN : 0);
}

/* A bus that was full comes back in another order, and may lie in a few blocks more. So values may
 * have half of the reserve; the other half is for deletes that come later in the log. */
static bool load_may_borrow(const struct sb_load *load)
{
        const struct sb_segment *segment = &load->handle->segment;
        uint64_t blocks = segment->geometry.unit_size / segment->class_size[segment->reserve_class];

        return load->borrowed < segment->geometry.reserve_count * blocks / 2;
}

/* Under a pin: the cell of a key that has none yet. Return: 0; SB_E_FULL; -EIO. */
static int load_make_key(struct sb_load *load, struct attempt *attempt, struct sb_spot *ret)
{
        struct sb_handle *handle = load->handle;
        const struct sb_load_version *version = attempt->version;
        int r;

        attempt->supplies.unlinked = load->cut;
        r = sb_key_take_supplies(
                handle, version->key_len, load_allow(load, version), &attempt->supplies);

        if (r)
                return r;
        r = sb_key_make(handle, version->key, version->key_len, attempt->hash, &attempt->supplies);
        if (r) /* it may have left a node without a cell, which the next sweep takes out */
                return r;
        return sb_key_find(handle, version->key, version->key_len, attempt->hash, ret) ? 0 : -EIO;
}

/* Under a pin: the whole way, with what memory there is. Return: as sb_load_version(). */
static int load_run(struct sb_load *load, struct attempt *attempt)
{
        const struct sb_load_version *version = attempt->version;
        struct sb_handle *handle = load->handle;
        struct sb_spot spot;
        int r;

        if (sb_key_find(handle, version->key, version->key_len, attempt->hash, &spot)) {
                /* Relaxed: no other process runs. */
                r = load_compare(version, spot.head, sb_load_relaxed(&spot.head->stamp));
                if (r <= 0)
                        return r;
        } else {
                spot.head = NULL;
        }
        r = sb_slab_take(handle, SB_UNIT_VERSIONS, sb_version_size(load_shape(version)),
                load_allow(load, version), &attempt->block);
        if (!r && !spot.head)
                r = load_make_key(load, attempt, &spot);
        if (!r)
                load_install(load, attempt, &spot);
        return r;
}

/* The same with a pin, and nothing left in hand behind it. */
static int load_try(struct sb_load *load, struct attempt *attempt)
{
        struct sb_handle *handle = load->handle;
        int r;

        sb_pin(handle);
        r = load_run(load, attempt);
        /* R:operation > A:operation, R:unpin > A:pins. As in put_run(). */
        sb_store_release(&handle->record->operation, 0);
        sb_unpin(handle);
        if (attempt->block)
                sb_slab_give_back(handle, attempt->block);
        if (attempt->supplies.node)
                sb_slab_give_back(handle, attempt->supplies.node);
        if (attempt->supplies.placeholder)
                sb_slab_give_back(handle, attempt->supplies.placeholder);
        attempt->block = attempt->supplies.node = attempt->supplies.placeholder = 0;
        sb_slab_settle(handle);
        return r;
}

/* The work on this handle's lists that is due. What is freed serves at once: nothing becomes a
 * spare, as it would behind a write. */
static void load_work(struct sb_handle *handle)
{
        if (SB_UNLIKELY(sb_limbo_pending_due(handle)))
                sb_reclaim_pending(handle);
        if (SB_UNLIKELY(sb_limbo_due(handle)))
                (void)sb_reclaim_free(handle);
}

/* Out of the reserve, as far as that may be. */
static int load_try_reserve(struct sb_load *load, struct attempt *attempt)
{
        int r;

        if (!load_may_borrow(load))
                return SB_E_FULL;
        load->borrows = true;
        r = load_try(load, attempt);
        load->borrows = false;
        load->borrowed += !r;
        return r;
}

/* Behind a sweep. One that finds too much history raises the floor, at most to the clock, and
 * another one takes out what is below that. */
static int load_try_swept(struct sb_load *load, struct attempt *attempt)
{
        bool rose;
        int r;

        do {
                rose = sb_work_all(load->handle, true);
                r = load_try(load, attempt);
        } while (r == SB_E_FULL && rose);
        return r;
}

/* What lies in the way moves, as for a writer that waits: what is loaded is freed again at other
 * places than in the bus that served, and a large value needs units in a row. Fault LOAD_UNMOVED:
 * it does not. */
static int load_try_moved(struct sb_load *load, struct attempt *attempt)
{
        struct sb_handle *handle = load->handle;
        uint32_t left = SB_FAULT(LOAD_UNMOVED) ? 0 : MOVES_MAX;
        int r;

        sb_window_begin(handle);
        /* Bound: result. There is no memory: windows that are given up are looked for again. */
        do
                r = load_try(load, attempt);
        while (r == SB_E_FULL && left-- && sb_move(handle));
        sb_window_end(handle);
        return r;
}

/* There was no memory: behind a sweep, then out of the reserve, and then behind moves. When a sweep
 * has freed nothing the next one waits until little else is left to try: it looks at the whole
 * segment. */
static int load_try_again(struct sb_load *load, struct attempt *attempt)
{
        bool rests = load->rest > 0;
        int r = SB_E_FULL;

        load->rest -= rests;
        if (!rests) {
                r = load_try_swept(load, attempt);
                if (r == SB_E_FULL)
                        load->rest = SWEEP_REST;
        }
        if (r == SB_E_FULL)
                r = load_try_reserve(load, attempt);
        if (r == SB_E_FULL && rests)
                r = load_try_swept(load, attempt);
        if (r == SB_E_FULL)
                r = load_try_moved(load, attempt);
        return r;
}

int sb_load_version(struct sb_load *load, const struct sb_load_version *version)
{
        struct attempt attempt = {.version = version};
        int r = load_check(load, version);

        if (r || load_passes(load, version))
                return r;
        load_note_rule(load, version);
        attempt.hash = sb_hash_key(version->key, version->key_len, load->handle->segment.seed);
        r = load_try(load, &attempt);
        if (SB_UNLIKELY(r == SB_E_FULL))
                r = load_try_again(load, &attempt);
        load_work(load->handle);
        return r;
}

void sb_load_fetch(struct sb_load *load, const void *key, uint32_t key_len)
{
        const struct sb_segment *segment = &load->handle->segment;
        uint64_t hash = sb_hash_key(key, key_len, segment->seed), *place;

        place = &load->fetched[load->fetched_count++ % SB_LOAD_FETCH];
        /* A key that is made needs its floor. */
        if (!sb_find_fetch_version(load->handle, *place))
                sb_prefetch(&segment->floors[sb_index_home(segment, *place)]);
        *place = hash;
        sb_find_fetch_bucket(load->handle, hash);
}

/* ---- the whole ---- */

int sb_load_begin(struct sb_handle *handle, struct sb_load *ret)
{
        const struct sb_superblock *super = handle->segment.super;

        /* Relaxed, both: no other process runs. */
        if (sb_load_relaxed(&super->clock) != 2 || sb_load_relaxed(&super->order))
                return -EEXIST;
        *ret = (struct sb_load){.handle = handle};
        return 0;
}

static uint64_t load_at_most(uint64_t word, uint64_t most)
{
        return word < most ? word : most;
}

int sb_load_turn(struct sb_load *load, const struct sb_load_words *words)
{
        struct sb_handle *handle = load->handle;
        struct sb_superblock *super = handle->segment.super;
        uint64_t forgotten = load_at_most(words->forgotten, words->cut);
        int r;

        if (load->cut || words->cut < load->newest || words->cut <= SB_STAMP_PLACEHOLDER ||
                words->cut > SB_LOAD_CUT_MAX)
                return !load->cut && words->cut < load->newest ? -EBADMSG : -EINVAL;
        r = sb_named_load(handle, words->cut);
        if (r)
                return r;
        sb_rules_announce_all(handle);
        /* R:history-floor > A:history-floor. What the stored bus had let go by then is not known.
         */
        sb_store_release(&super->history_floor, load_at_most(words->history_floor, words->cut));
        /* Relaxed: no other process runs. A key that was removed while loading has said so. */
        if (sb_load_relaxed(&super->forgotten) < forgotten)
                sb_store_relaxed(&super->forgotten, forgotten);
        sb_clock_resume(handle, words->cut);
        /* No horizon was taken by this clock, so the next one knows the marks. */
        (void)sb_clock_take_cut(handle);
        sb_horizon_renew(handle);
        load->cut = words->cut;
        load->forward = words->forward;
        if (load->forward && load->rule_begins)
                load->rules_since = UINT64_MAX;
        return 0;
}

int sb_load_floor_of(
        struct sb_load *load, uint64_t seed, uint64_t which, uint64_t count, uint64_t rev)
{
        const struct sb_segment *segment = &load->handle->segment;

        if ((which >= count || count > UINT32_MAX || rev > REV_MAX) &&
                !SB_FAULT(FLOOR_OF_NO_BUCKET))
                return -EBADMSG;
        if (seed == segment->seed)
                sb_index_inherit_floor(segment, (uint32_t)which, (uint32_t)count, rev);
        else
                sb_index_inherit_floor(segment, 0, 1, rev);
        return 0;
}

void sb_load_time(struct sb_load *load, uint64_t cut, uint64_t realtime_ns)
{
        if (load->last_ns < realtime_ns)
                load->last_ns = realtime_ns;
        sb_times_load(&load->handle->segment, cut, realtime_ns);
}

/* Have a rule with a span, which has this node, cover no cut of which the stored bus may have let
 * something go by its own clock. By the clock of now that cut may be within the span again: where
 * the machine began since, or another one has the log. A key that was forgotten by then would count
 * as one that never was. Nothing is lost that is within the span. */
static void load_bound_span(struct sb_handle *handle, struct sb_node *node, void *context)
{
        struct sb_version *version = sb_find_in_node(handle, node, SB_STAMP_INTENT - 1);
        struct sb_node_key key = sb_node_key(&handle->segment, node);
        const struct sb_load *load = context;
        struct sb_rule_value value;
        struct sb_moment moment;

        if (!version ||
                !sb_version_copy(&handle->segment, version, key.len, &value, sizeof(value)) ||
                SB_RULE_KIND(value.word) != SB_RULE_SPAN || !value.since ||
                load->last_ns < SB_RULE_VALUE(value.word) ||
                !sb_times_at(&handle->segment, load->last_ns - SB_RULE_VALUE(value.word), &moment))
                return;
        /* The notes that are left may be fewer than there were: the next one is not older. */
        if (!sb_times_behind(&handle->segment, moment.cut + 1, &moment))
                moment.cut = load->cut;
        if (value.since >= moment.cut)
                return;
        value.since = moment.cut;
        /* In place: no other process runs. */
        memcpy(version->bytes + key.len, &value, sizeof(value));
}

uint64_t sb_load_space(struct sb_load *load)
{
        load->node_count = sb_sorted_count(load->handle);
        return load->node_count * SB_SORTED_SPACE;
}

int sb_load_end(struct sb_load *load, void *space)
{
        struct sb_handle *handle = load->handle;
        int r;

        if (!load->cut)
                return -EINVAL;
        r = sb_sorted_link(handle, space, load->node_count);
        if (r)
                return r;
        (void)sb_order_walk(handle, SB_RESERVED_KEEP, SB_KEEP_PREFIX - 1, load_bound_span, load);
        sb_work_all(handle, false); /* which raises the stable cut, to one above all stamps */
        sb_limbo_leave(handle);
        return 0;
}
