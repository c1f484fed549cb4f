/*
 * Choices: the fibres, the depth-first walk over their schedules, and the shrinking of a schedule
 * that fails.
 *
 * A path is a list of choices at the points that offered more than one. The walk runs the scenario
 * again for each path, from its start or from where an execution with the same first choices was
 * saved (saved.c): it follows the path's prefix and takes choice 0 (go on) after it. The
 * deepest choice that has another way goes next. At each choice after the prefix the walk looks the
 * state up (states.c): a state that it met with as many preemptions left ends the execution there,
 * because all its ways are walked already or are on the path.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tests/harness/model/core.h"

#define STACK_SIZE (256u << 10)
#define PATH_MAX_  65536u
#define AT_END     UINT32_MAX

struct model_run run;

struct choice {
        uint8_t taken, count;
};

static struct {
        struct choice *path;
        uint32_t path_len, depth;
        struct {
                uint32_t preemptions, crashes, delays, older; /* left */
                uint32_t directive_count;
                uint32_t dead; /* the thread that the reaper is for */
        } bounds;
        struct directive directives[DIRECTIVES_MAX];
        unsigned char *stacks;
        void *main_sp;
        uint64_t notes[MODEL_NOTES]; /* at the start */
} search;

/* ---- fibres ---- */

void model_switch(void **save, void *to);
__asm__(".text\n.globl model_switch\n.type model_switch,@function\nmodel_switch:\n"
        " push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        " mov %rsp,(%rdi)\n mov %rsi,%rsp\n"
        " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
        ".size model_switch,.-model_switch\n");

static __attribute__((noreturn)) void run_leave(enum run_result result)
{
        void *unused;

        run.result = result;
        model_switch(&unused, search.main_sp);
        __builtin_unreachable();
}

void model_fail(const char *format, ...)
{
        va_list arguments;

        if (!run.failed) {
                va_start(arguments, format);
                vsnprintf(run.message, sizeof run.message, format, arguments);
                va_end(arguments);
        }
        run.failed = true;
        if (run.trace)
                printf("  ==> %s\n", run.message);
        if (run.in_setup) {
                printf("setup of %s: %s\n", run.scenario->name, run.message);
                exit(1);
        }
        run_leave(RUN_FAILED);
}

/* A signal in a fibre lands here, on the fibre's stack. */
static int trapped_signal;
static void trapped(void)
{
        model_fail("signal %d (%s)", trapped_signal,
                trapped_signal == SIGSEGV ? "an access outside" : "an assertion of the code");
}

static void on_signal(int number, siginfo_t *info, void *context)
{
        ucontext_t *where = context;

        (void)info;
        if (run.current >= FIBRE_NONE) {
                signal(number, SIG_DFL);
                return;
        }
        trapped_signal = number;
        where->uc_mcontext.gregs[REG_RSP] = (where->uc_mcontext.gregs[REG_RSP] - 256) / 16 * 16 - 8;
        where->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)trapped;
}

static void signals_catch(void)
{
        static unsigned char stack[64 << 10];
        stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
        struct sigaction action = {
                .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

        sigaltstack(&alternate, NULL);
        sigaction(SIGSEGV, &action, NULL);
        sigaction(SIGBUS, &action, NULL);
        sigaction(SIGILL, &action, NULL);
        sigaction(SIGTRAP, &action, NULL);
        sigaction(SIGFPE, &action, NULL);
}

static void fibre_finish(void);
static void fibre_go(uint32_t to);
static uint32_t pick(uint32_t me, uint32_t point);

static void fibre_entry(void)
{
        uint32_t me = run.current;

        if (me == FIBRE_NONE) /* The starter: a choice may end the execution, so it needs a stack
                                 too. */
                fibre_go(pick(FIBRE_NONE, 0));
        if (me == FIBRE_CHECKER) {
                run.scenario->check();
                run_leave(RUN_ENDED);
        }
        if (me == FIBRE_REAPER)
                run.scenario->reaper(search.bounds.dead);
        else
                run.scenario->thread(me);
        run.fibres[me].state = FIBRE_DONE;
        fibre_finish();
        __builtin_trap();
}

static void fibre_make(uint32_t index)
{
        void **top = (void **)(search.stacks + (uint64_t)(index + 1) * STACK_SIZE - 64);

        *--top = NULL; /* keeps the entry's frame aligned */
        *--top = (void *)fibre_entry;
        top -= 6;
        run.fibres[index].sp = top;
        run.fibres[index].state = FIBRE_READY;
}

static void fibre_go(uint32_t to)
{
        uint32_t from = run.current;
        void *unused;

        run.current = to;
        model_switch(from < FIBRE_COUNT ? &run.fibres[from].sp : &unused, run.fibres[to].sp);
}

/* ---- choices ---- */

static uint32_t ready_others(uint32_t me)
{
        uint32_t count = 0, i;

        for (i = 0; i < FIBRE_CHECKER; i++)
                count += i != me && run.fibres[i].state == FIBRE_READY;
        return count;
}

static uint32_t ready_nth(uint32_t me, uint32_t n)
{
        uint32_t i;

        for (i = 0; i < FIBRE_CHECKER; i++) {
                if (i != me && run.fibres[i].state == FIBRE_READY && n-- == 0)
                        return i;
        }
        abort();
}

static uint32_t buffered_others(uint32_t me)
{
        uint32_t count = 0, i;

        for (i = 0; i < FIBRE_CHECKER; i++)
                count += i != me && run.fibres[i].buffered;
        return count;
}

/* Notes each deviation and its point, so that a list of them tells a failing execution. */
static void directive_note(uint32_t point, enum action_kind kind, uint32_t target)
{
        if (search.bounds.directive_count < DIRECTIVES_MAX) {
                search.directives[search.bounds.directive_count++] = (struct directive){
                        .fibre = run.current, .point = point, .kind = kind, .target = target};
        }
}

/* Returns now, and again in each execution that begins with what is saved here. */
static void run_save(void)
{
        run.result = RUN_SAVED;
        model_switch(&run.fibres[run.current].sp, search.main_sp);
}

/* The next number on the path, 0 .. @count-1. @older: 1: the choice of model_choose_older(), at
 * which the state is the same as at the choice of the same access before it. */
static uint32_t path_take(uint32_t count, uint32_t older)
{
        uint32_t at = search.depth;

        if (at < search.path_len) {
                if (count <= 1)
                        return 0;
                if (search.path[at].count != count) {
                        fprintf(stderr, "model: %s: an execution did not repeat itself\n",
                                run.scenario->name);
                        abort();
                }
                search.depth++;
                return search.path[at].taken;
        }
        if (!run.scenario->unmerged &&
                model_state_known(older << 24 | search.bounds.older << 16 |
                                          search.bounds.crashes << 8 | search.bounds.delays,
                        search.bounds.preemptions))
                run_leave(RUN_MERGED);
        if (count <= 1)
                return 0;
        if (at >= PATH_MAX_ || count > 255)
                abort();
        search.path[at] = (struct choice){.taken = 0, .count = (uint8_t)count};
        search.path_len = at + 1;
        if (run.current < FIBRE_CHECKER && !run.scenario->anew && model_saved_due(at))
                run_save(); /* later executions go on from here, on other ways */
        search.depth = at + 1;
        return search.path[at].taken;
}

static const struct directive *directive_take(uint32_t point, bool older)
{
        uint32_t i;

        for (i = 0; i < search.bounds.directive_count; i++) {
                struct directive *directive = &search.directives[i];

                if (directive->used || directive->fibre != run.current ||
                        directive->point != point || (directive->kind == ACTION_OLDER) != older)
                        continue;
                directive->used = true;
                return directive;
        }
        return NULL;
}

static struct directive choose_directed(uint32_t me, uint32_t point)
{
        const struct directive *found = directive_take(point, false);
        struct directive none = {.kind = ACTION_RUN};

        if (!found)
                return none;
        switch (found->kind) {
        case ACTION_DRAIN:
                return run.fibres[found->target].buffered ? *found : none;
        case ACTION_SWITCH:
        case ACTION_SWITCH_KEEP:
                return found->target != me && run.fibres[found->target].state == FIBRE_READY
                               ? *found
                               : none;
        case ACTION_CRASH:
                return *found;
        default:
                return none;
        }
}

/* What the current fibre may do now: go on, have a buffer drained, be preempted, be killed. */
static struct directive choose(uint32_t me, uint32_t point)
{
        struct directive ret = {.fibre = me, .point = point, .kind = ACTION_RUN};
        uint32_t drains, targets, ways, crash, n;

        if (run.directed)
                return choose_directed(me, point);
        drains = run.scenario->delays ? buffered_others(me) : 0;
        targets = search.bounds.preemptions ? ready_others(me) : 0;
        ways = run.fibres[me].buffered && search.bounds.delays ? 2 : 1;
        crash = me < FIBRE_CHECKER && search.bounds.crashes && (run.scenario->crash_mask >> me & 1);
        n = 1 + drains + targets * ways + crash;
        if (n == 1)
                return ret;
        n = path_take(n, 0);
        if (n-- == 0)
                return ret;
        if (n < drains) {
                uint32_t i;

                for (i = 0; i < FIBRE_CHECKER; i++) {
                        if (i != me && run.fibres[i].buffered && n-- == 0)
                                break;
                }
                ret.kind = ACTION_DRAIN;
                ret.target = i;
        } else if (n - drains < targets * ways) {
                n -= drains;
                ret.kind = n / targets ? ACTION_SWITCH_KEEP : ACTION_SWITCH;
                ret.target = ready_nth(me, n % targets);
        } else {
                ret.kind = ACTION_CRASH;
        }
        directive_note(point, ret.kind, ret.target);
        return ret;
}

/* Which fibre runs next when the current one (FIBRE_NONE at the start) cannot go on. */
static uint32_t pick(uint32_t me, uint32_t point)
{
        uint32_t count = ready_others(me), n = 0;

        if (run.directed) {
                const struct directive *found = directive_take(point, false);

                if (found && found->target != me && run.fibres[found->target].state == FIBRE_READY)
                        return found->target;
        } else {
                n = path_take(count, 0);
        }
        n = ready_nth(me, n);
        if (!run.directed && n != ready_nth(me, 0))
                directive_note(point, ACTION_PICK, n);
        return n;
}

static void run_check(void)
{
        uint32_t i;

        for (i = 0; i < FIBRE_CHECKER; i++)
                model_buffers_drain(i);
        if (!run.directed && model_end_known())
                run_leave(RUN_ENDED);
        if (!run.scenario->check)
                run_leave(RUN_ENDED);
        run.current = FIBRE_NONE;
        fibre_make(FIBRE_CHECKER);
        fibre_go(FIBRE_CHECKER);
}

/* The current fibre is done or dead. */
static void fibre_finish(void)
{
        uint32_t me = run.current, keep = 0;
        struct fibre *fibre = &run.fibres[me];

        if (run.trace)
                model_trace_event(fibre->state == FIBRE_DEAD ? "*** KILLED" : "done", me);
        if (fibre->state == FIBRE_DONE && fibre->buffered && ready_others(me)) {
                if (run.directed) {
                        const struct directive *found = directive_take(AT_END - 1, false);

                        keep = found ? 1 : 0;
                } else if (search.bounds.delays) {
                        keep = path_take(2, 0);
                        if (keep) {
                                search.bounds.delays--;
                                directive_note(AT_END - 1, ACTION_KEEP, 0);
                        }
                }
        }
        if (!keep)
                model_buffers_drain(me);
        if (!ready_others(me))
                run_check();
        fibre_go(pick(me, AT_END));
}

static void fibre_crash(uint32_t me)
{
        run.fibres[me].state = FIBRE_DEAD;
        if (search.bounds.crashes)
                search.bounds.crashes--;
        if (me < MODEL_THREADS)
                search.bounds.dead = me;
        if (run.scenario->reaper && run.fibres[FIBRE_REAPER].state == FIBRE_ABSENT) {
                fibre_make(FIBRE_REAPER);
                if (run.scenario->weak)
                        model_views_begin_behind(FIBRE_REAPER, me);
        }
        fibre_finish();
}

void model_point(uint32_t offset)
{
        uint32_t me = run.current, point;

        run.at_point = false;
        if (me >= FIBRE_CHECKER ||
                (run.scenario->focus && offset != NO_OFFSET && !run.scenario->focus(offset)))
                return;
        point = run.fibres[me].points++;
        for (;;) {
                struct directive action = choose(me, point);

                switch (action.kind) {
                case ACTION_RUN:
                        run.at_point = true;
                        return;
                case ACTION_DRAIN:
                        model_buffer_drain_one(action.target);
                        continue;
                case ACTION_CRASH:
                        fibre_crash(me);
                        __builtin_trap();
                case ACTION_SWITCH:
                        model_buffers_drain(me);
                        break;
                default:
                        search.bounds.delays -= search.bounds.delays > 0;
                        break;
                }
                search.bounds.preemptions -= search.bounds.preemptions > 0;
                fibre_go(action.target);
        }
}

uint32_t model_choose_older(uint32_t count)
{
        uint32_t me = run.current, point = run.fibres[me].points - 1, n;

        if (count <= 1 || !run.scenario->older || !run.at_point)
                return 0;
        if (run.directed) {
                const struct directive *found = directive_take(point, true);

                return found && found->target < count ? found->target : 0;
        }
        if (!search.bounds.older)
                return 0;
        n = path_take(count, 1);
        if (n) {
                search.bounds.older--;
                directive_note(point, ACTION_OLDER, n);
        }
        return n;
}

void model_yield(void)
{
        uint32_t me = run.current, point, to;

        if (me >= FIBRE_CHECKER)
                return;
        if (++run.steps > run.step_max)
                model_fail("no progress: %lu accesses and no end", (unsigned long)run.steps);
        run.fibres[me].history = model_mix(run.fibres[me].history, 77);
        point = run.fibres[me].points++;
        model_buffers_drain(me);
        if (!ready_others(me))
                return;
        to = pick(me, point);
        if (run.trace)
                model_trace_event("gives way", me);
        fibre_go(to);
}

void model_sleep(uint32_t offset)
{
        uint32_t me = run.current, point;

        if (me >= FIBRE_CHECKER)
                model_fail("the check would sleep");
        run.fibres[me].history = model_mix(run.fibres[me].history, 78);
        run.fibres[me].state = FIBRE_ASLEEP;
        run.fibres[me].sleeps_on = offset;
        point = run.fibres[me].points++;
        if (run.trace)
                model_trace_event("sleeps", me);
        if (!ready_others(me))
                run_check();
        fibre_go(pick(me, point));
}

void model_wake(uint32_t offset)
{
        uint32_t i;

        for (i = 0; i < FIBRE_CHECKER; i++)
                if (run.fibres[i].state == FIBRE_ASLEEP && run.fibres[i].sleeps_on == offset) {
                        run.fibres[i].state = FIBRE_READY;
                        if (run.trace)
                                model_trace_event("is woken", i);
                }
}

/* ---- executions ---- */

static bool has_stack(uint32_t index)
{
        return run.fibres[index].state == FIBRE_READY || run.fibres[index].state == FIBRE_ASLEEP ||
               index == run.current;
}

static size_t stack_size(uint32_t index)
{
        return (size_t)(search.stacks + (uint64_t)(index + 1) * STACK_SIZE -
                        (unsigned char *)run.fibres[index].sp);
}

/* Saves all that the execution may have changed since its start, or loads it. */
static void execution_move(struct model_saved *saved)
{
        uint32_t i;

        model_saved_move(saved, &run, sizeof run);
        model_saved_move(saved, &search.bounds, sizeof search.bounds);
        model_world_move(saved);
        for (i = 0; i < FIBRE_CHECKER; i++)
                if (has_stack(i))
                        model_saved_move(saved, run.fibres[i].sp, stack_size(i));
        model_heap_move(saved);
        model_memory_move(saved);
        if (run.scenario->weak)
                model_views_move(saved);
}

/* From the start. */
static void execute_anew(void)
{
        const struct model_scenario *scenario = run.scenario;
        uint32_t i;

        model_memory_restore();
        model_views_restore();
        model_heap_restore();
        model_world_restore();
        for (i = 0; i < FIBRE_COUNT; i++) {
                struct fibre *fibre = &run.fibres[i];

                fibre->state = FIBRE_ABSENT;
                fibre->history = i;
                fibre->points = fibre->buffered = fibre->unchecked = 0;
                if (i < scenario->thread_count)
                        fibre_make(i);
        }
        memcpy(run.notes, search.notes, sizeof run.notes);
        run.failed = false;
        run.steps = 0;
        search.depth = 0;
        search.bounds.preemptions = scenario->preemptions;
        search.bounds.crashes = scenario->crashes;
        search.bounds.delays = scenario->delays;
        search.bounds.older = scenario->older;
        run.current = FIBRE_NONE;
        if (!run.directed)
                search.bounds.directive_count = 0;
        fibre_make(FIBRE_STARTER);
        model_switch(&search.main_sp, run.fibres[FIBRE_STARTER].sp);
}

/* Runs once, by the path or by directives. */
static enum run_result execute(void)
{
        struct model_saved *from = run.directed ? NULL : model_saved_top();

        if (from) {
                execution_move(from);
                search.depth = from->depth;
                model_switch(&search.main_sp, run.fibres[run.current].sp);
        } else {
                execute_anew();
        }
        while (run.result == RUN_SAVED) {
                execution_move(model_saved_push(search.depth));
                model_switch(&search.main_sp, run.fibres[run.current].sp);
        }
        run.current = FIBRE_NONE;
        return run.result;
}

void model_begin(const struct model_scenario *scenario)
{
        memset(&run, 0, sizeof run);
        run.scenario = scenario;
        run.weak = scenario->weak;
        run.step_max = scenario->step_max ? scenario->step_max : 4000;
        run.current = FIBRE_NONE;
        if (!search.stacks) {
                search.stacks = mmap(NULL, (uint64_t)FIBRE_COUNT * STACK_SIZE,
                        PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                search.path = calloc(PATH_MAX_, sizeof *search.path);
                if (search.stacks == MAP_FAILED || !search.path)
                        abort();
                signals_catch();
        }
        model_memory_begin();
        model_heap_begin();
        model_world_begin(scenario->world, scenario->world_size);
        run.in_setup = true;
        if (scenario->setup)
                scenario->setup();
        run.in_setup = false;
        memcpy(search.notes, run.notes, sizeof search.notes);
        model_memory_snapshot();
        model_heap_snapshot();
        model_world_snapshot();
}

bool model_run_directed(const struct directive *directives, uint32_t count, bool trace)
{
        uint32_t i;

        count = count < DIRECTIVES_MAX ? count : DIRECTIVES_MAX;
        for (i = 0; i < count; i++)
                search.directives[i] = directives[i];
        search.bounds.directive_count = count;
        for (i = 0; i < count; i++)
                search.directives[i].used = false;
        run.directed = true;
        run.trace = trace;
        execute();
        run.trace = run.directed = false;
        return run.failed;
}

/* Leaves out the directives that the failure does not need; then names the rest. */
static void shrink(struct model_report *ret)
{
        struct directive kept[DIRECTIVES_MAX], fewer[DIRECTIVES_MAX];
        uint32_t count = search.bounds.directive_count, i, k;
        bool again = true;

        memcpy(kept, search.directives, sizeof kept);
        while (again) {
                again = false;
                for (i = count; i-- > 0;) {
                        for (k = 0; k < count; k++)
                                fewer[k - (k > i)] = kept[k];
                        if (!model_run_directed(fewer, count - 1, false))
                                continue;
                        memcpy(kept, fewer, sizeof kept);
                        count--;
                        again = true;
                }
        }
        if (!model_run_directed(kept, count, false))
                snprintf(run.message, sizeof run.message,
                        "a schedule that failed does not fail again");
        snprintf(ret->message, sizeof ret->message, "%s", run.message);
        model_directives_print(kept, count, ret->replay, sizeof ret->replay);
}

/* Takes the next path. Return: false when the walk is complete. */
static bool path_advance(void)
{
        while (search.path_len) {
                struct choice *last = &search.path[search.path_len - 1];

                if (last->taken + 1u < last->count) {
                        last->taken++;
                        model_saved_forget(search.path_len);
                        return true;
                }
                search.path_len--;
        }
        return false;
}

bool model_explore(const struct model_scenario *scenario, struct model_report *ret)
{
        memset(ret, 0, sizeof *ret);
        model_begin(scenario);
        model_states_forget();
        model_saved_forget(0);
        search.path_len = 0;
        do {
                enum run_result result;

                if (scenario->execution_max && ret->executions >= scenario->execution_max) {
                        ret->cut = true;
                        break;
                }
                result = execute();
                ret->executions++;
                ret->steps += run.steps;
                ret->merged += result == RUN_MERGED;
                if (result == RUN_FAILED) {
                        ret->failed = true;
                        shrink(ret);
                        break;
                }
        } while (path_advance());
        model_states_count(&ret->states, &ret->finals);
        return !ret->failed;
}

uint64_t model_region_hash(void)
{
        return model_memory_hash();
}

bool model_reaper_died(void)
{
        return run.fibres[FIBRE_REAPER].state == FIBRE_DEAD;
}

bool model_finished(uint32_t index)
{
        return run.fibres[index].state == FIBRE_DONE;
}

bool model_asleep(uint32_t index)
{
        return run.fibres[index].state == FIBRE_ASLEEP;
}

const void *model_spec(void)
{
        return run.scenario->spec;
}
