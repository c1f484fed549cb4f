/*
 * Which ends of the edges in docs/ordering.md the model checker judges under C11's orders: each
 * place that names the end is weakened at once, and a scenario of the real code must find it.
 * edges.py reads places and names out of the sources, so that an end which is in neither list below
 * fails the test. Of those that are not judged, docs/ordering.md says why.
 *
 * usage: model-orders ORDERING.MD [--print | --all]. --print: the section of that page, as it has
 * to be. --all: looks for what is not judged in all scenarios, with one preemption.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/edges.h"
#include "tests/model/lists.h"

/* How an end is weakened: its acquires or its releases to relaxed accesses, its locked instructions
 * to relaxed ones, or to such as acquire and release and are no barriers. A membarrier, by a seeded
 * fault: NO_MEMBARRIER. */
enum way { WAY_WORD, WAY_LOCKED, WAY_BARRIER, WAY_FAULT };
static const char *const way_names[] = {
        "relaxed access", "relaxed locked instruction", "locked, no barrier", "no membarrier"};

static const struct judged {
        const char *ends; /* one; by hand several, which are weakened together */
        enum way way;
        const char *scenario;
        uint32_t preemptions;
        bool slow; /* only where all is looked for */
} judged[] = {
        {"A:publish", WAY_WORD, "get under set and free", 1},
        {"R:publish", WAY_LOCKED, "get under set and free", 1},
        {"R:publish", WAY_BARRIER, "set and scan on deleted", 1},
        {"A:pins", WAY_WORD, "get under set and free, the long way", 2},
        {"M:pins", WAY_FAULT, "magazine, get under buffers, the long way", 2},
        {"R:guard", WAY_WORD, "get under set and free", 2},
        {"A:era", WAY_WORD, "cas and cas on old version", 1},
        {"A:retire", WAY_WORD, "magazine, built in again in a dead one's slab", 2},
        {"R:block-freed", WAY_LOCKED, "spare, set and delete", 1},
        {"A:record-tag", WAY_WORD, "far guard and check", 1},
        {"R:clock", WAY_LOCKED, "keep beside sets out of the magazine", 1},
        {"R:clock", WAY_BARRIER, "keep beside sets out of the magazine", 1},
        {"R:status", WAY_LOCKED, "txn: cut and set", 1},
        {"R:status", WAY_BARRIER, "txn: cut and set", 1},
        {"R:operation", WAY_LOCKED, "txn: stable cut, serializable", 1},
        {"A:sign", WAY_WORD, "away: sweep beside a removal and a make", 1},
        {"R:sleeps", WAY_LOCKED, "watch: sleeps beside a set", 2},
        {"R:sleeps", WAY_BARRIER, "watch: sleeps beside a set", 2},
        {"R:dirty", WAY_LOCKED, "watch: sleeps beside a set", 2},
        {"R:dirty", WAY_BARRIER, "watch: sleeps beside a set", 2},
        {"A:hint", WAY_WORD, "prefix: reads beside two writers", 1},
        {"R:unpin", WAY_WORD, "remove, free, under scan", 2, .slow = true},
};

/* ---- the places, as the scenarios come by ---- */

static struct {
        enum model_order order[SITES_MAX];
        bool passed[SITES_MAX];
} now;

static struct {
        const char *file;
        uint32_t line, site;
} places[1u << 13];

static uint32_t site_find(const char *file, uint32_t line)
{
        size_t len = strlen(file), own;
        uint32_t i;

        for (i = 0; i < site_count; i++) {
                own = strlen(sites[i].file);
                if (line >= sites[i].first && line <= sites[i].last && len >= own &&
                        !strcmp(file + len - own, sites[i].file))
                        break;
        }
        return i;
}

static enum model_order order_of(const char *file, uint32_t line)
{
        uint32_t at = (uint32_t)(((uintptr_t)file >> 3) * 31 + line) % (1u << 13);

        if (places[at].file != file || places[at].line != line) {
                places[at].file = file;
                places[at].line = line;
                places[at].site = site_find(file, line);
        }
        if (places[at].site == site_count)
                return MODEL_AS_WRITTEN;
        now.passed[places[at].site] = true;
        return now.order[places[at].site];
}

static bool is_place_of(const struct site *site, const char *end, enum way way)
{
        char name[72];

        snprintf(name, sizeof name, " %s ", end);
        if (way != WAY_WORD ? site->kind != SITE_LOCKED
                            : site->kind != (*end == 'A' ? SITE_ACQUIRE : SITE_RELEASE))
                return false;
        return strstr(site->edges, name);
}

/* Return: how many places that is. */
static uint32_t weaken(const char *ends, enum way way)
{
        char copy[128], *end, *rest;
        uint32_t i, count = 0;

        memset(now.order, 0, sizeof now.order);
        snprintf(copy, sizeof copy, "%s", ends);
        for (end = strtok_r(copy, " ", &rest); end; end = strtok_r(NULL, " ", &rest))
                for (i = 0; i < site_count; i++)
                        if (way != WAY_FAULT && is_place_of(&sites[i], end, way)) {
                                now.order[i] = way == WAY_BARRIER ? MODEL_ACQ_REL : MODEL_RELAXED;
                                count++;
                        }
        return count;
}

/* ---- scenarios ---- */

static struct model_scenario *all;
static uint32_t all_count;

static void add(struct world_list list)
{
        uint32_t i;

        all = realloc(all, (all_count + list.count) * sizeof *all);
        if (!all)
                abort();
        for (i = 0; i < list.count; i++) {
                struct model_scenario *scenario = &all[all_count++];

                *scenario = world_scenario(&list.cases[i]);
                scenario->weak = true;
                scenario->older = 1;
                scenario->delays = 0;
                scenario->preemptions = 1;
                scenario->order = order_of;
        }
}

static void add_all(void)
{
        add(world_pairs(PAIRS_PLAIN));
        for (uint32_t i = 0; i < WORLD_CHOSEN; i++)
                add(*world_chosen[i]);
}

static bool is_sound(const struct judged *what)
{
        struct model_report report;
        uint32_t i, places_weak;

        for (i = 0; i < all_count && strcmp(all[i].name, what->scenario); i++) {
        }
        if (i == all_count) {
                printf("FAIL %s: no scenario \"%s\"\n", what->ends, what->scenario);
                return false;
        }
        all[i].preemptions = what->preemptions;
        places_weak = weaken(what->ends, what->way);
        world_fault = what->way == WAY_FAULT ? SB_FAULT_NO_MEMBARRIER : SB_FAULT_NONE;
        model_explore(&all[i], &report);
        world_fault = SB_FAULT_NONE;
        if (!report.failed) {
                printf("FAIL %s as %s: \"%s\" does not find it\n", what->ends, way_names[what->way],
                        what->scenario);
                return false;
        }
        printf("ok %s, %u places, as %s: \"%s\" finds it, %lu executions: %s\n", what->ends,
                places_weak, way_names[what->way], what->scenario, (unsigned long)report.executions,
                report.message);
        memset(now.order, 0, sizeof now.order);
        if (model_explore(&all[i], &report))
                return true;
        printf("FAIL \"%s\" as it is: %s\n", what->scenario, report.message);
        return false;
}

/* ---- which ends there are, and which of them are judged ---- */

/* The scenario that judges an end, or NULL. */
static const char *judge_of(const char *end, enum way way)
{
        uint32_t i;

        for (i = 0; i < sizeof judged / sizeof *judged; i++)
                if (judged[i].way == way && !strcmp(judged[i].ends, end))
                        return judged[i].scenario;
        return NULL;
}

static bool has_places(const char *end, enum way way)
{
        uint32_t i;

        for (i = 0; way != WAY_FAULT && i < site_count; i++)
                if (is_place_of(&sites[i], end, way))
                        return true;
        return way == WAY_FAULT && judge_of(end, way);
}

/* Calls @what for each edge that some place names. */
static bool each_edge(bool (*what)(const char *edge))
{
        static char seen[1u << 13];
        bool good = true;
        uint32_t i;

        seen[0] = 0;
        for (i = 0; i < site_count; i++) {
                char copy[256], *end, *rest;

                snprintf(copy, sizeof copy, "%s", sites[i].edges);
                for (end = strtok_r(copy, " ", &rest); end; end = strtok_r(NULL, " ", &rest)) {
                        char name[64];

                        snprintf(name, sizeof name, " %s ", end + 2);
                        if (strstr(seen, name))
                                continue;
                        strncat(seen, name, sizeof seen - strlen(seen) - 1);
                        good &= what(end + 2);
                }
        }
        return good;
}

/* Calls @what for each end of the edge, in each way in which it can be weakened. */
static bool each_end(
        const char *edge, bool (*what)(void *of, const char *end, enum way way), void *of)
{
        bool good = true;
        uint32_t way;
        char end[64];
        const char *letter;

        for (letter = "ARM"; *letter; letter++)
                for (way = WAY_WORD; way <= WAY_FAULT; way++) {
                        snprintf(end, sizeof end, "%c:%s", *letter, edge);
                        if (has_places(end, (enum way)way))
                                good &= what(of, end, (enum way)way);
                }
        return good;
}

/* A line of the page: an edge, what of it is judged, and what is not. */
struct line {
        char judged[512], rest[128];
};

static bool line_add(void *of, const char *end, enum way way)
{
        static const char *const letters[] = {"", "L", "B", ""};
        struct line *line = of;
        const char *judge = judge_of(end, way);
        size_t len = strlen(judge ? line->judged : line->rest);

        if (judge)
                snprintf(line->judged + len, sizeof line->judged - len, "%s%c%s: %s",
                        len ? "; " : "", *end, letters[way], judge);
        else
                snprintf(line->rest + len, sizeof line->rest - len, "%s%c%s", len ? ", " : "", *end,
                        letters[way]);
        return true;
}

static char *page;

static void line_make(const char *edge, char ret[768])
{
        struct line line = {{0}, {0}};

        each_end(edge, line_add, &line);
        snprintf(ret, 768, "| %s | %s | %s |\n", edge, line.judged[0] ? line.judged : "-",
                line.rest[0] ? line.rest : "-");
}

static bool edge_is_on_page(const char *edge)
{
        char line[768];

        line_make(edge, line);
        if (strstr(page, line))
                return true;
        printf("FAIL the page lacks: %s", line);
        return false;
}

static bool edge_print(const char *edge)
{
        char line[768];

        line_make(edge, line);
        fputs(line, stdout);
        return true;
}

/* Looks for an end that is not judged in all scenarios that come by its places. */
static bool end_hunt(void *of, const char *end, enum way way)
{
        uint64_t executions = 0;
        struct model_report report;
        uint32_t i, count = 0;

        (void)of;
        if (judge_of(end, way))
                return true;
        for (i = 0; i < all_count; i++) {
                struct model_scenario scenario = all[i];
                uint32_t k;

                weaken(end, way);
                memset(now.passed, 0, sizeof now.passed);
                scenario.preemptions = 0;
                scenario.execution_max = 20;
                model_explore(&scenario, &report);
                for (k = 0; k < site_count && !(now.passed[k] && now.order[k]); k++) {
                }
                if (k == site_count)
                        continue;
                scenario.preemptions = 1;
                scenario.execution_max = 2000;
                count++;
                model_explore(&scenario, &report);
                executions += report.executions;
                if (report.failed) {
                        printf("FAIL %s as %s is not judged, and \"%s\" finds it: %s\n", end,
                                way_names[way], scenario.name, report.message);
                        return false;
                }
        }
        printf("# %s as %s: %u scenarios come by, %lu executions, nothing is found\n", end,
                way_names[way], count, (unsigned long)executions);
        return true;
}

static bool edge_hunt(const char *edge)
{
        return each_end(edge, end_hunt, NULL);
}

static char *page_read(const char *path)
{
        FILE *file = fopen(path, "r");
        char *text = calloc(1, 1u << 20);

        if (!file || !text || !fread(text, 1, (1u << 20) - 1, file)) {
                printf("FAIL %s cannot be read\n", path);
                exit(1);
        }
        fclose(file);
        return text;
}

int main(int argc, char **argv)
{
        uint32_t i, ran = 0, bad = 0;

        setvbuf(stdout, NULL, _IOLBF, 0);
        if (argc < 2) {
                printf("FAIL usage: %s ORDERING.MD [--print | --all]\n", argv[0]);
                return 1;
        }
        page = page_read(argv[1]);
        if (argc > 2 && !strcmp(argv[2], "--print"))
                return !each_edge(edge_print);
        add_all();
        if (argc > 2 && !strcmp(argv[2], "--all"))
                return !each_edge(edge_hunt);
        if (argc == 5) { /* by hand: ENDS WAY SCENARIO */
                const struct judged one = {argv[2], (enum way)atoi(argv[3]), argv[4], 2};

                return !is_sound(&one);
        }
        for (i = 0; i < sizeof judged / sizeof *judged; i++)
                if (!judged[i].slow || getenv("SB_TEST_LONG")) {
                        bad += !is_sound(&judged[i]);
                        ran++;
                }
        bad += !each_edge(edge_is_on_page);
        printf("# %u weakenings are found\n", ran - (bad < ran ? bad : ran));
        return bad != 0;
}
