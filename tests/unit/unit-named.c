/*
 * Marked cuts (shm/history/named.h): taking one, a full table, which marks stand, and what is left
 * of those that died in the middle.
 */
#include "ring/op/put.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/history/named.h"
#include "shm/layout/record.h"
#include "shm/layout/reserved.h"
#include "shm/mvcc/snapshot.h"
#include "tests/unit/bus.h"

static bool begin(uint32_t mark_count)
{
        struct sb_geometry_wish wish = {.size = 1 << 20, .clients = 2, .mark_count = mark_count};

        return make_bus_of(&wish);
}

static struct sb_named_cut *mark_at(uint32_t index)
{
        return &writer.segment.marks[index];
}

/* A cut that is announced, and marked. */
static int mark(struct sb_handle *handle, uint32_t *ret_snapshot, struct sb_named_value *ret)
{
        uint64_t cut;

        if (sb_snapshot_open(handle, ret_snapshot, &cut))
                return -1;
        return sb_named_take(handle, *ret_snapshot, cut, ret);
}

static bool write_key(const char *name, const struct sb_named_value *value)
{
        unsigned char key[64];
        uint32_t len = SB_MARK_PREFIX + (uint32_t)strlen(name);
        uint64_t rev;

        memcpy(key, SB_RESERVED_MARK, SB_MARK_PREFIX);
        memcpy(key + SB_MARK_PREFIX, name, strlen(name));
        return !sb_op_write_reserved(
                &writer, key, len, value, value ? sizeof(*value) : 0, SB_OP_ANY_REV, &rev);
}

static void test_marks_are_taken_one_by_one_until_the_table_is_full(void)
{
        static const uint32_t counts[] = {1, 3, 64};

        for (uint32_t c = 0; c < 3; c++) {
                struct sb_named_value values[64], more;
                uint32_t snapshot;
                uint64_t cut;

                CHECK(begin(counts[c]));
                for (uint32_t i = 0; i < counts[c]; i++) {
                        CHECK(!sb_named_read(&reader.segment, i, &cut));
                        CHECK(!sb_named_keeps(&reader.segment, i, &cut));
                        CHECK_EQ(mark(&writer, &snapshot, &values[i]), 0);
                        CHECK_EQ(values[i].index, i);
                        CHECK_EQ(sb_load_relaxed(&writer.segment.super->mark_high), i + 1);
                        CHECK(sb_named_read(&reader.segment, i, &cut) && cut == values[i].cut);
                        CHECK(sb_named_stands(&reader.segment, &values[i]));
                        sb_snapshot_close(&writer, snapshot);
                        for (uint32_t j = 0; j < i; j++)
                                CHECK(values[j].owner != values[i].owner &&
                                        values[j].cut < values[i].cut);
                }
                CHECK_EQ(mark(&reader, &snapshot, &more), SB_E_FULL);
                sb_named_let_go(&reader, &values[counts[c] / 2]);
                CHECK_EQ(mark(&reader, &snapshot, &more), 0);
                CHECK_EQ(more.index, counts[c] / 2);
                CHECK(!sb_named_stands(&writer.segment, &values[counts[c] / 2]));
                CHECK(sb_named_stands(&writer.segment, &more));
                unmake_bus();
        }
}

static void test_a_mark_names_its_maker_however_many_cuts_that_took_before(void)
{
        static const uint64_t opens[] = {
                0, (UINT64_C(1) << 48) - 2, (UINT64_C(1) << 48) - 1, (UINT64_C(1) << 62) - 2};

        for (uint32_t i = 0; i < sizeof(opens) / sizeof(opens[0]); i++) {
                struct sb_named_value value;
                uint32_t snapshot;

                CHECK(begin(4));
                sb_store_relaxed(&reader.record->opens, opens[i]);
                CHECK_EQ(mark(&reader, &snapshot, &value), 0);
                CHECK_EQ(value.owner >> 48, reader.slot + 1);
                unmake_bus();
        }
}

static void test_a_cut_that_was_taken_away_is_not_marked(void)
{
        struct sb_named_value value;
        uint32_t snapshot;
        uint64_t cut;

        CHECK(begin(4));
        CHECK_EQ(sb_snapshot_open(&writer, &snapshot, &cut), 0);
        sb_store_relaxed(&sb_record_snapshots(writer.record)[snapshot], SB_SNAPSHOT_EVICTED);
        CHECK_EQ(sb_named_take(&writer, snapshot, cut, &value), SB_E_LAPPED);
        CHECK_EQ(sb_load_relaxed(&mark_at(0)->owner), 0);
        CHECK(!sb_named_keeps(&writer.segment, 0, &cut));
        unmake_bus();
}

static void test_pruners_keep_what_is_being_made_and_readers_do_not_see_it(void)
{
        struct sb_named_value value;
        uint32_t snapshot;
        uint64_t cut = 0;

        CHECK(begin(4));
        CHECK_EQ(mark(&writer, &snapshot, &value), 0);
        sb_or_full(&mark_at(0)->owner, SB_NAMED_MAKING);
        CHECK(!sb_named_read(&reader.segment, 0, &cut));
        CHECK(sb_named_keeps(&reader.segment, 0, &cut) && cut == value.cut);
        CHECK(!sb_named_stands(&reader.segment, &value));
        sb_store_relaxed(&mark_at(0)->cut, 0); /* none was written yet */
        CHECK(!sb_named_keeps(&reader.segment, 0, &cut));
        unmake_bus();
}

static void test_hostile_values_name_no_mark_and_free_none(void)
{
        struct sb_named_value value, other;
        uint32_t snapshot;

        CHECK(begin(4));
        CHECK_EQ(mark(&writer, &snapshot, &value), 0);
        for (uint32_t i = 0; i < 5; i++) {
                other = value;
                switch (i) {
                case 0:
                        other.index = 4;
                        break;
                case 1:
                        other.index = UINT32_MAX;
                        break;
                case 2:
                        other.owner++;
                        break;
                case 3:
                        other.index = 1; /* free, as an owner of 0 is */
                        other.owner = 0;
                        break;
                default:
                        other.index = 1;
                }
                CHECK(!sb_named_stands(&writer.segment, &other));
                sb_named_let_go(&reader, &other);
                CHECK_EQ(sb_load_relaxed(&writer.segment.super->sweep_wanted), 0);
        }
        CHECK(sb_named_stands(&writer.segment, &value));
        sb_named_let_go(&reader, &value);
        CHECK(!sb_named_stands(&writer.segment, &value));
        CHECK_EQ(sb_load_relaxed(&writer.segment.super->sweep_wanted), 1);
        sb_named_let_go(&writer, &value); /* and once more, which is nothing */
        CHECK_EQ(sb_load_relaxed(&writer.segment.super->sweep_wanted), 1);
        unmake_bus();
}

static void test_repair_frees_what_has_no_key_and_no_maker_at_work(void)
{
        struct sb_named_value values[6], late;
        uint32_t snapshots[6], snapshot;
        uint64_t cut;

        CHECK(begin(8));
        for (uint32_t i = 0; i < 6; i++)
                CHECK_EQ(mark(i < 5 ? &writer : &reader, &snapshots[i], &values[i]), 0);
        CHECK(write_key("one", &values[1]) && write_key("three", &values[3]) &&
                write_key("four", &values[4]));
        CHECK(write_key("four", NULL)); /* dropped, but for the mark */
        /* Another's, made by the writer too, and begun by a dead one above all that is in use. */
        late = (struct sb_named_value){.owner = UINT64_C(2) << 48 | 1000, .index = 7};
        sb_store_relaxed(&mark_at(7)->owner, late.owner | SB_NAMED_MAKING);
        sb_named_repair(&reader);
        for (uint32_t i = 0; i < 6; i++) /* all are announced: their makers may be at work */
                CHECK(sb_named_stands(&writer.segment, &values[i]));
        CHECK(sb_load_relaxed(&mark_at(7)->owner) !=
                0); /* so may its maker, whatever it announces */
        for (uint32_t i = 0; i < 5; i++)
                if (i != 2)
                        sb_snapshot_close(&writer, snapshots[i]);
        sb_or_full(&sb_record_snapshots(writer.record)[snapshots[2]], SB_SNAPSHOT_EVICTING);
        sb_named_repair(&reader);
        CHECK(!sb_named_stands(&writer.segment, &values[0]));
        CHECK(sb_named_stands(&writer.segment, &values[1]));
        CHECK(sb_named_stands(&writer.segment, &values[2])); /* being taken away, but announced */
        CHECK(sb_named_stands(&writer.segment, &values[3]));
        CHECK(!sb_named_stands(&writer.segment, &values[4]));
        CHECK(sb_named_stands(&writer.segment, &values[5])); /* the reader announces it */
        CHECK(sb_load_relaxed(&mark_at(7)->owner) != 0);
        sb_snapshot_close(&writer, snapshots[2]);
        sb_named_repair(&reader);
        CHECK(!sb_named_stands(&writer.segment, &values[2]));
        CHECK_EQ(sb_load_relaxed(&mark_at(7)->owner), 0);
        sb_snapshot_close(&reader, snapshots[5]);
        CHECK_EQ(sb_snapshot_open(&reader, &snapshot, &cut), 0); /* another cut than the mark's */
        sb_named_repair(&writer);
        CHECK(!sb_named_stands(&writer.segment, &values[5]));
        CHECK(sb_named_stands(&writer.segment, &values[1]));
        CHECK(!sb_load_relaxed(&writer.record->pin) && !sb_load_relaxed(&reader.record->pin));
        unmake_bus();
}

/* As recovery makes them, out of the keys of marks alone. */
static void test_behind_marks_that_were_loaded_a_client_makes_others(void)
{
        for (uint64_t opens = 0; opens < 4; opens++) {
                struct sb_named_value loaded, next;
                uint32_t snapshot;

                CHECK(begin(4));
                sb_store_relaxed(&writer.record->opens, opens);
                CHECK_EQ(mark(&writer, &snapshot, &loaded), 0);
                sb_snapshot_close(&writer, snapshot);
                CHECK(write_key("one", &loaded));
                sb_store_relaxed(&mark_at(0)->owner, 0);
                sb_store_relaxed(&mark_at(0)->cut, 0);
                sb_store_relaxed(&writer.segment.super->mark_high, 0);
                sb_store_relaxed(&writer.record->opens, 0);
                CHECK_EQ(sb_named_load(&reader, UINT64_MAX), 0);
                CHECK(sb_named_stands(&writer.segment, &loaded));
                CHECK_EQ(sb_load_relaxed(&mark_at(0)->cut), loaded.cut);
                CHECK_EQ(sb_load_relaxed(&writer.segment.super->mark_high), 1);
                CHECK_EQ(mark(&writer, &snapshot, &next), 0);
                CHECK(next.index == 1 && next.owner != loaded.owner);
                unmake_bus();
        }
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_marks_are_taken_one_by_one_until_the_table_is_full);
        RUN(test_a_mark_names_its_maker_however_many_cuts_that_took_before);
        RUN(test_a_cut_that_was_taken_away_is_not_marked);
        RUN(test_pruners_keep_what_is_being_made_and_readers_do_not_see_it);
        RUN(test_hostile_values_name_no_mark_and_free_none);
        RUN(test_repair_frees_what_has_no_key_and_no_maker_at_work);
        RUN(test_behind_marks_that_were_loaded_a_client_makes_others);
        return test_end();
}
