/*
 * The output of the model checker: traces of an execution, schedules as text, and the main function
 * that model tests share.
 *
 * A schedule is a list of FIBRE.CHOICE, each followed by a letter for what happened there:
 *
 *      sN  fibre N went on instead
 *      kN  the same, with the store buffer kept
 *      dN  a store of fibre N reached memory
 *      x   the fibre was killed
 *      pN  fibre N went on after an end ("e" for the choice)
 *      b   the fibre's buffer outlived it
 *      oN  the access read the value N stores back, or its store came N stores late
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/harness/model/core.h"

static const char action_letters[] = {
        [ACTION_RUN] = '-',
        [ACTION_SWITCH] = 's',
        [ACTION_SWITCH_KEEP] = 'k',
        [ACTION_DRAIN] = 'd',
        [ACTION_CRASH] = 'x',
        [ACTION_PICK] = 'p',
        [ACTION_KEEP] = 'b',
        [ACTION_OLDER] = 'o',
};

static void fibre_name(uint32_t fibre, char ret[16])
{
        if (fibre == FIBRE_REAPER)
                snprintf(ret, 16, "reaper");
        else if (fibre == FIBRE_CHECKER)
                snprintf(ret, 16, "check");
        else if (fibre >= FIBRE_CHECKER)
                snprintf(ret, 16, "setup");
        else
                snprintf(ret, 16, "T%u", fibre);
}

void model_trace_line(
        const char *what, uint32_t offset, uint64_t old, uint64_t value, const char *note)
{
        char actor[16], where[64];

        if (run.current >= FIBRE_CHECKER)
                return;
        fibre_name(run.current, actor);
        snprintf(where, sizeof where, "%x", offset);
        if (run.scenario->where)
                run.scenario->where(offset, where);
        printf("  %-6s %4u  %-10s %-36s %lx", actor, run.fibres[run.current].points - 1, what,
                where, (unsigned long)value);
        if (old)
                printf(" (was %lx)", (unsigned long)old);
        printf("%s\n", note);
}

void model_trace_event(const char *what, uint32_t fibre)
{
        char actor[16];

        fibre_name(fibre, actor);
        printf("  %-6s       %s\n", actor, what);
}

void model_directives_print(
        const struct directive *directives, uint32_t count, char *ret, size_t size)
{
        size_t len = 0;
        uint32_t i;

        snprintf(ret, size, "-"); /* the schedule without a switch */
        for (i = 0; i < count && len < size; i++) {
                const struct directive *directive = &directives[i];
                char point[16];

                snprintf(point, sizeof point, "%u", directive->point);
                len += (size_t)snprintf(ret + len, size - len, "%s%u.%s%c%u", i ? "," : "",
                        directive->fibre, directive->point >= UINT32_MAX - 1 ? "e" : point,
                        action_letters[directive->kind], directive->target);
        }
}

uint32_t model_directives_parse(const char *text, struct directive *ret, uint32_t max)
{
        uint32_t count = 0;

        while (*text && *text != '-' && count < max) {
                struct directive *directive = &ret[count++];
                const char *letter;
                char *end;

                memset(directive, 0, sizeof *directive);
                directive->fibre = (uint32_t)strtoul(text, &end, 10);
                text = *end == '.' ? end + 1 : end;
                if (*text == 'e') {
                        directive->point = UINT32_MAX;
                        end = (char *)text + 1;
                } else {
                        directive->point = (uint32_t)strtoul(text, &end, 10);
                }
                letter = memchr(action_letters, *end, sizeof action_letters);
                if (!letter) {
                        fprintf(stderr, "no schedule: %s\n", text);
                        exit(2);
                }
                directive->kind = (enum action_kind)(letter - action_letters);
                if (directive->kind == ACTION_KEEP)
                        directive->point = UINT32_MAX - 1;
                directive->target = (uint32_t)strtoul(end + 1, &end, 10);
                text = *end == ',' ? end + 1 : end;
        }
        return count;
}

static bool model_run_schedule(
        const struct model_scenario *scenario, const char *schedule, bool trace)
{
        struct directive directives[DIRECTIVES_MAX];
        uint32_t count = model_directives_parse(schedule, directives, DIRECTIVES_MAX);

        model_begin(scenario);
        return model_run_directed(directives, count, trace);
}

bool model_replay(const struct model_scenario *scenario, const char *schedule)
{
        return !model_run_schedule(scenario, schedule, true);
}

bool model_schedule_fails(const struct model_scenario *scenario, const char *schedule)
{
        return model_run_schedule(scenario, schedule, false);
}

void model_print(
        const struct model_scenario *scenario, const struct model_report *report, uint64_t spent_ns)
{
        printf("%s%s: %lu executions (%lu merged), %lu states, %lu ends, %lu ms%s%s%s\n",
                report->failed || report->cut ? "FAIL " : "ok ", scenario->name,
                (unsigned long)report->executions, (unsigned long)report->merged,
                (unsigned long)report->states, (unsigned long)report->finals,
                (unsigned long)(spent_ns / 1000000),
                report->cut ? ", CUT: the walk is not complete" : "", report->failed ? ": " : "",
                report->failed ? report->message : "");
}

static uint64_t clock_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int model_usage(const char *program, const char *argument)
{
        printf("FAIL %s: usage: %s [--long] [--only SCENARIO] [--replay SCHEDULE] "
               "[--preemptions N] [--weak N] [--list]\n",
                argument, program);
        return 1;
}

/* Every day's walk takes one switch less, and of a costly scenario two; of what is cheap, none. */
static uint32_t model_quick_preemptions(const struct model_scenario *scenario)
{
        if (scenario->whole)
                return scenario->preemptions;
        if (scenario->costly)
                return scenario->preemptions > 2 ? scenario->preemptions - 2 : 0;
        return scenario->preemptions > 1 ? scenario->preemptions - 1 : scenario->preemptions;
}

int model_main(int argc, char **argv, const struct model_scenario *scenarios, uint32_t count)
{
        const char *only = NULL, *replay = NULL, *preemptions = NULL, *weak = NULL;
        uint64_t executions = 0, states = 0, begin_ns = clock_ns();
        uint32_t i, ran = 0, left = 0, in_turns = 0, failed = 0;
        bool deep = getenv("SB_TEST_LONG");
        int k;

        setvbuf(stdout, NULL, _IOLBF, 0);
        for (k = 1; k < argc; k++) {
                if (!strcmp(argv[k], "--list")) {
                        for (i = 0; i < count; i++)
                                puts(scenarios[i].name);
                        return 0;
                }
                if (!strcmp(argv[k], "--long"))
                        deep = true;
                else if (k + 1 < argc && !strcmp(argv[k], "--only"))
                        only = argv[++k];
                else if (k + 1 < argc && !strcmp(argv[k], "--replay"))
                        replay = argv[++k];
                else if (k + 1 < argc && !strcmp(argv[k], "--preemptions"))
                        preemptions = argv[++k];
                else if (k + 1 < argc && !strcmp(argv[k], "--weak"))
                        weak = argv[++k];
                else
                        return model_usage(argv[0], argv[k]);
        }
        for (i = 0; i < count; i++) {
                struct model_scenario scenario = scenarios[i];
                struct model_report report;
                uint64_t since_ns = clock_ns();

                if (only && !strstr(scenario.name, only))
                        continue;
                if (!deep && !only && scenario.costly && !scenario.preemptions) {
                        left++;
                        continue;
                }
                if (!deep && !only) {
                        scenario.preemptions = model_quick_preemptions(&scenario);
                        /* Such a walk passes whatever the code does between two accesses. */
                        in_turns += scenarios[i].preemptions && !scenario.preemptions &&
                                    !scenario.crashes;
                }
                if (weak) {
                        scenario.weak = true;
                        scenario.older = (uint32_t)atoi(weak);
                        scenario.delays = 0;
                }
                if (replay)
                        return model_replay(&scenario, replay) ? 0 : 1;
                if (preemptions)
                        scenario.preemptions = (uint32_t)atoi(preemptions);
                ran++;
                model_explore(&scenario, &report);
                model_print(&scenario, &report, clock_ns() - since_ns);
                executions += report.executions;
                states += report.states;
                failed += report.failed || report.cut;
                if (!report.failed)
                        continue;
                printf("  again with: %s --only '%s' --replay %s\n", argv[0], scenario.name,
                        report.replay);
                model_replay(&scenario, report.replay);
        }
        if (!ran)
                printf("FAIL there is no scenario with '%s' in its name: --list prints them\n",
                        only ? only : "");
        printf("# %u scenarios, %lu executions, %lu distinct states, %lu ms", ran,
                (unsigned long)executions, (unsigned long)states,
                (unsigned long)((clock_ns() - begin_ns) / 1000000));
        if (left)
                printf("; %u costly ones are left to --long", left);
        if (in_turns)
                printf("; %u costly ones only in turns, the rest is left to --long", in_turns);
        putchar('\n');
        return failed || !ran ? 1 : 0;
}
