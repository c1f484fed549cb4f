/*
 * The stepper; see stepper.h.
 *
 * step_enter() (assembly below) goes to step_hook as if from a piece, with the operation's first
 * instruction as the next one, and with the same registers each time. The hook puts the registers
 * into `step_machine`, and step_glance() runs on a stack of its own. Where point() is to be called,
 * the hook saves the vector registers as well, and step_look() calls it. Then the hook takes the
 * registers back and executes the piece of the next instruction, or the instruction itself at its
 * address when stepping is over or a branch has begun. The operation returns to step_returned,
 * which goes to step_hook as well: that is the end of the operation or of a branch. A branch ends
 * by putting the saved machine back.
 *
 * An instruction without a piece is executed at its address with the trap flag set. Traps come
 * after the last instructions of step_hook, which the handler lets pass, then after that
 * instruction, and the SIGTRAP handler goes on at step_hook.
 *
 * Processor time finds hangs, and not the clock: a profiling timer counts ticks during which the
 * same play or branch was running. So a loaded machine reports no hang.
 */
#define _GNU_SOURCE
#include "tests/harness/step/stepper.h"

#include <cpuid.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include "tests/harness/step/pieces.h"

#define TRAP_FLAG     0x100u
#define RED_ZONE      128
#define STACK_SIZE    (256u << 10)
#define HOOK_SIZE     (1u << 20)
#define SIGNAL_SIZE   (64u << 10)
#define XSTATE_MAX    (16u << 10)
#define XSAVE_LEAF    13
#define TICK_US       50000
#define TICKS_TO_HANG 10

enum { RSP = STEP_REGISTERS - 2, FLAGS };

/* The processor between two instructions. The assembly below knows the offsets. */
struct step_machine {
        uint64_t registers[STEP_REGISTERS]; /* the last one: flags */
        uint64_t next;                      /* address of the instruction that comes next */
        uint64_t go;                        /* where step_hook goes on */
        uint64_t caller;                    /* stack pointer of step_enter() */
        uint64_t scratch;
        uint64_t hook_stack;
};

struct step_machine step_machine __attribute__((visibility("hidden")));
unsigned char step_xstate[XSTATE_MAX] __attribute__((aligned(64), visibility("hidden")));

void step_enter(void *context, void (*operation)(void *context), void *stack_top);
bool step_glance(void);
void step_look(void);
extern const char step_hook[], step_hook_end[], step_returned[], step_after[];

__asm__(".text\n"
        ".p2align 4\n"
        ".globl step_enter\n"
        ".hidden step_enter, step_hook, step_hook_end, step_returned, step_after\n"
        ".hidden step_glance, step_look\n"
        ".type step_enter, @function\n"
        "step_enter:\n"
        "       push %rbp\n"
        "       push %rbx\n"
        "       push %r12\n"
        "       push %r13\n"
        "       push %r14\n"
        "       push %r15\n"
        "       mov %rsp, 152+step_machine(%rip)\n"
        "       mov %rsi, 136+step_machine(%rip)\n"
        "       mov %rdx, %rsp\n"
        "       lea step_returned(%rip), %rax\n"
        "       push %rax\n"
        "       xor %eax, %eax\n"
        "       xor %ebx, %ebx\n"
        "       xor %ecx, %ecx\n"
        "       xor %edx, %edx\n"
        "       xor %esi, %esi\n"
        "       xor %ebp, %ebp\n"
        "       xor %r8d, %r8d\n"
        "       xor %r9d, %r9d\n"
        "       xor %r10d, %r10d\n"
        "       xor %r11d, %r11d\n"
        "       xor %r12d, %r12d\n"
        "       xor %r13d, %r13d\n"
        "       xor %r14d, %r14d\n"
        "       xor %r15d, %r15d\n"
        ".globl step_hook\n"
        "step_hook:\n"
        "       mov %rax, step_machine(%rip)\n"
        "       mov %rbx, 8+step_machine(%rip)\n"
        "       mov %rcx, 16+step_machine(%rip)\n"
        "       mov %rdx, 24+step_machine(%rip)\n"
        "       mov %rsi, 32+step_machine(%rip)\n"
        "       mov %rdi, 40+step_machine(%rip)\n"
        "       mov %rbp, 48+step_machine(%rip)\n"
        "       mov %r8, 56+step_machine(%rip)\n"
        "       mov %r9, 64+step_machine(%rip)\n"
        "       mov %r10, 72+step_machine(%rip)\n"
        "       mov %r11, 80+step_machine(%rip)\n"
        "       mov %r12, 88+step_machine(%rip)\n"
        "       mov %r13, 96+step_machine(%rip)\n"
        "       mov %r14, 104+step_machine(%rip)\n"
        "       mov %r15, 112+step_machine(%rip)\n"
        "       mov %rsp, 120+step_machine(%rip)\n"
        "       mov 168+step_machine(%rip), %rsp\n"
        "       pushfq\n"
        "       pop 128+step_machine(%rip)\n"
        "       cld\n"
        "       call step_glance\n"
        "       test %al, %al\n"
        "       jz 1f\n"
        "       mov $-1, %eax\n"
        "       mov $-1, %edx\n"
        "       xsave64 step_xstate(%rip)\n"
        "       call step_look\n"
        "       mov $-1, %eax\n"
        "       mov $-1, %edx\n"
        "       xrstor64 step_xstate(%rip)\n"
        "1:\n"
        "       mov step_machine(%rip), %rax\n"
        "       mov 8+step_machine(%rip), %rbx\n"
        "       mov 16+step_machine(%rip), %rcx\n"
        "       mov 24+step_machine(%rip), %rdx\n"
        "       mov 32+step_machine(%rip), %rsi\n"
        "       mov 40+step_machine(%rip), %rdi\n"
        "       mov 48+step_machine(%rip), %rbp\n"
        "       mov 56+step_machine(%rip), %r8\n"
        "       mov 64+step_machine(%rip), %r9\n"
        "       mov 72+step_machine(%rip), %r10\n"
        "       mov 80+step_machine(%rip), %r11\n"
        "       mov 88+step_machine(%rip), %r12\n"
        "       mov 96+step_machine(%rip), %r13\n"
        "       mov 104+step_machine(%rip), %r14\n"
        "       mov 112+step_machine(%rip), %r15\n"
        "       push 128+step_machine(%rip)\n"
        "       popfq\n"
        "       mov 120+step_machine(%rip), %rsp\n"
        "       jmp *144+step_machine(%rip)\n"
        ".globl step_hook_end\n"
        "step_hook_end:\n"
        ".globl step_returned\n"
        "step_returned:\n"
        "       lea step_after(%rip), %rax\n"
        "       mov %rax, 136+step_machine(%rip)\n"
        "       jmp step_hook\n"
        ".globl step_after\n"
        "step_after:\n"
        "       mov 152+step_machine(%rip), %rsp\n"
        "       pop %r15\n"
        "       pop %r14\n"
        "       pop %r13\n"
        "       pop %r12\n"
        "       pop %rbx\n"
        "       pop %rbp\n"
        "       ret\n"
        ".size step_enter, . - step_enter\n");

_Static_assert(offsetof(struct step_machine, registers[RSP]) == 120 &&
                       offsetof(struct step_machine, registers[FLAGS]) == 128 &&
                       offsetof(struct step_machine, next) == 136 &&
                       offsetof(struct step_machine, go) == 144 &&
                       offsetof(struct step_machine, caller) == 152 &&
                       offsetof(struct step_machine, hook_stack) == 168,
        "the assembly uses these offsets");

struct world {
        struct step_machine machine;
        unsigned char *stack_from;
        unsigned char stack[STACK_SIZE];
        unsigned char xstate[XSTATE_MAX];
        unsigned char *memory[STEP_MEMORY_MAX];
};

static unsigned char operation_stack[STACK_SIZE] __attribute__((aligned(64)));
static unsigned char hook_stack[HOOK_SIZE] __attribute__((aligned(64)));
static unsigned char signal_stack[SIGNAL_SIZE] __attribute__((aligned(64)));
static struct world world;

static struct step_run *running;
static bool in_branch, ready;
static uint32_t xstate_size;
/* stores: the present instruction may store. changes: into shared memory. trapping: it has no
 * piece, and the handler awaits its trap. */
static bool stores, changes, trapping;
static struct piece *executed; /* the piece of the present instruction; NULL: not known */
static sigjmp_buf run_exit, play_exit;
static volatile sig_atomic_t playing;
/* turn changes whenever something else runs; turn_of_tick is its value at the last tick. */
static volatile uint64_t turn, turn_of_tick;
static volatile int ticks;

static void world_save(void)
{
        world.machine = step_machine;
        world.stack_from = (unsigned char *)step_machine.registers[RSP] - RED_ZONE;
        memcpy(world.stack, world.stack_from,
                (size_t)(operation_stack + STACK_SIZE - world.stack_from));
        memcpy(world.xstate, step_xstate, xstate_size);
        for (int i = 0; i < STEP_MEMORY_MAX && running->memory[i].size; i++)
                memcpy(world.memory[i], running->memory[i].at, running->memory[i].size);
}

static void world_restore(void)
{
        step_machine = world.machine;
        memcpy(world.stack_from, world.stack,
                (size_t)(operation_stack + STACK_SIZE - world.stack_from));
        memcpy(step_xstate, world.xstate, xstate_size);
        for (int i = 0; i < STEP_MEMORY_MAX && running->memory[i].size; i++)
                memcpy(running->memory[i].at, world.memory[i], running->memory[i].size);
}

static const struct pieces_end pieces_end = {&step_machine.next, &step_machine.scratch, step_hook};

/* The value of a register as the processor numbers it. */
PIECES_GENERAL static uint64_t register_value(uint8_t number, uint64_t next)
{
        /* rax rcx rdx rbx rsp rbp rsi rdi: their places in step_machine.registers */
        static const uint8_t places[] = {0, 2, 3, 1, RSP, 6, 4, 5};

        if (number == X86_NONE)
                return 0;
        if (number == X86_ADDRESS)
                return next;
        return step_machine.registers[number < 8 ? places[number] : number - 1];
}

/* Whether the next instruction, of which this is the piece, may access running->shared. */
PIECES_GENERAL static bool is_touching(const struct piece *piece)
{
        uint64_t from = (uintptr_t)running->shared.at;

        for (int i = 0; i < X86_OPERANDS && piece->operands[i].size && !piece->anywhere; i++) {
                const struct x86_operand *operand = &piece->operands[i];
                uint64_t next = step_machine.next + piece->len;
                uint64_t at = register_value(operand->base, next) +
                              register_value(operand->index, next) * operand->scale +
                              (uint64_t)operand->distance;

                if (at < from + running->shared.size && at + operand->size > from)
                        return true;
        }
        return piece->anywhere;
}

/* The piece of the next instruction; NULL: it is not known yet. */
PIECES_GENERAL static struct piece *piece_next(void)
{
        struct piece *piece;

        if (executed && executed->then && executed->then->address == step_machine.next)
                return executed->then;
        piece = piece_known(step_machine.next);
        if (executed)
                executed->then = piece;
        return piece;
}

/* What point() is told of the next instruction, of which this is the piece. */
PIECES_GENERAL static void describe(const struct piece *piece)
{
        running->address = step_machine.next;
        running->stored = stores;
        running->changed = changes;
        running->touches = running->shared.size && is_touching(piece);
}

/* Goes on to the next instruction by its piece, or by the trap flag. */
PIECES_GENERAL static void go_on(struct piece *piece)
{
        step_machine.go = step_machine.next;
        if (step_machine.next == (uintptr_t)step_returned)
                return;
        executed = piece->code ? piece : NULL;
        stores = piece->stores;
        changes = stores && (running->touches || !running->shared.size || !piece->code);
        if (piece->code && !running->by_traps) {
                step_machine.go = (uintptr_t)piece->code;
                return;
        }
        trapping = true;
        step_machine.registers[FLAGS] |= TRAP_FLAG;
}

static void operation_returned(void)
{
        step_machine.go = step_machine.next;
        if (!in_branch)
                return;
        in_branch = false;
        turn++;
        running->ended(running->context, running->points - 1);
        world_restore();
        go_on(piece_of(step_machine.next, &pieces_end));
        stores = changes = true;
}

/* step_hook calls this on its stack: the operation stands between two instructions. Counts the
 * point and goes on. Return: whether step_look() has to do it. */
PIECES_GENERAL bool step_glance(void)
{
        struct piece *piece;

        if (in_branch || running->wanted == STEP_EACH || running->points == running->point_limit ||
                step_machine.next == (uintptr_t)step_after)
                return true;
        piece = piece_next();
        if (!piece)
                return true;
        describe(piece);
        if (running->wanted == STEP_STORED ? running->changed : running->touches)
                return true;
        turn++;
        running->points++;
        go_on(piece);
        return false;
}

/* The same, where point() is called, or the operation has returned. */
void step_look(void)
{
        enum step_verdict verdict;
        struct piece *piece;

        turn++;
        if (step_machine.next == (uintptr_t)step_after) {
                operation_returned();
                return;
        }
        if (running->points == running->point_limit)
                siglongjmp(run_exit, STEP_TOO_LONG);
        piece = piece_of(step_machine.next, &pieces_end);
        describe(piece);
        running->points++;
        verdict = running->point(running->context, running->points - 1, running->address);
        turn++;
        if (in_branch || verdict == STEP_STOP)
                step_machine.go = step_machine.next;
        else
                go_on(piece);
}

/* A trap comes after an instruction of step_hook's end, before the one without a piece, or after
 * that one. */
static void on_trap(int signal, siginfo_t *info, void *ucontext)
{
        greg_t *registers = ((ucontext_t *)ucontext)->uc_mcontext.gregs;
        uintptr_t address = (uintptr_t)registers[REG_RIP];

        (void)signal;
        (void)info;
        if (!running)
                abort();
        if (address >= (uintptr_t)step_hook && address < (uintptr_t)step_hook_end)
                return;
        if (trapping && address == step_machine.next) {
                trapping = false;
                return;
        }
        step_machine.next = address;
        registers[REG_EFL] &= ~(greg_t)TRAP_FLAG;
        registers[REG_RIP] = (greg_t)(uintptr_t)step_hook;
}

const uint64_t *step_registers(void)
{
        return step_machine.registers;
}

void step_branch(void)
{
        world_save();
        in_branch = true;
        running->branches++;
}

static void leave(enum step_end end)
{
        if (playing)
                siglongjmp(play_exit, end);
        if (running)
                siglongjmp(run_exit, end);
}

static void on_tick(int signal)
{
        (void)signal;
        if (turn_of_tick != turn || (!running && !playing)) {
                turn_of_tick = turn;
                ticks = 0;
        } else if (++ticks == TICKS_TO_HANG) {
                ticks = 0;
                leave(STEP_HANGS);
        }
}

static void on_crash(int signal_number)
{
        leave(STEP_CRASHES);
        /* The crash is not the stepper's business: the program dies of it. */
        signal(signal_number, SIG_DFL);
        raise(signal_number);
}

static void handle(int signal, void (*action)(int))
{
        struct sigaction how = {
                .sa_handler = action, .sa_flags = SA_ONSTACK | SA_NODEFER | SA_RESTART};

        sigaction(signal, &how, NULL);
}

static void get_ready(void)
{
        stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof(signal_stack)};
        struct sigaction trap = {
                .sa_sigaction = on_trap, .sa_flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO};
        struct itimerval tick = {{0, TICK_US}, {0, TICK_US}};
        unsigned int unused;

        if (ready)
                return;
        ready = true;
        step_machine.hook_stack = (uintptr_t)(hook_stack + HOOK_SIZE);
        if (!__get_cpuid_count(XSAVE_LEAF, 0, &unused, &xstate_size, &unused, &unused) ||
                xstate_size > XSTATE_MAX) {
                fprintf(stderr, "stepper: no XSAVE here, or too much to save\n");
                abort();
        }
        sigaltstack(&stack, NULL);
        sigaction(SIGTRAP, &trap, NULL);
        handle(SIGPROF, on_tick);
        handle(SIGSEGV, on_crash);
        handle(SIGBUS, on_crash);
        handle(SIGILL, on_crash);
        handle(SIGFPE, on_crash);
        setitimer(ITIMER_PROF, &tick, NULL);
}

void step_forget(void)
{
        memset(operation_stack, 0, sizeof(operation_stack));
}

enum step_end step_run(struct step_run *run)
{
        enum step_end end;

        get_ready();
        run->points = run->branches = 0;
        for (int i = 0; i < STEP_MEMORY_MAX && run->memory[i].size; i++)
                world.memory[i] = malloc(run->memory[i].size);
        running = run;
        in_branch = trapping = false;
        stores = changes = true;
        executed = NULL;
        turn++;
        end = (enum step_end)sigsetjmp(run_exit, 0);
        if (end == STEP_DONE)
                step_enter(run->context, run->operation, operation_stack + STACK_SIZE);
        running = NULL;
        for (int i = 0; i < STEP_MEMORY_MAX; i++) {
                free(world.memory[i]);
                world.memory[i] = NULL;
        }
        return end;
}

enum step_end step_play(void (*play)(void *context), void *context)
{
        enum step_end end;

        get_ready();
        turn++;
        end = (enum step_end)sigsetjmp(play_exit, 0);
        if (end == STEP_DONE) {
                playing = 1;
                play(context);
        }
        playing = 0;
        return end;
}

const char *step_end_text(enum step_end end)
{
        static const char *const texts[] = {
                "done", "hangs", "crashes", "takes too many instructions"};

        return texts[end];
}

extern const char __executable_start[];

const char *step_where(uintptr_t address)
{
        static char text[256];
        char command[128], function[96] = "", place[128] = "";
        FILE *pipe;

        snprintf(text, sizeof(text), "instruction 0x%lx", (unsigned long)address);
        snprintf(command, sizeof(command), "addr2line -s -f -e /proc/%d/exe 0x%lx 2>/dev/null",
                (int)getpid(), (unsigned long)(address - (uintptr_t)__executable_start));
        pipe = popen(command, "r");
        if (!pipe)
                return text;
        if (fscanf(pipe, "%95s %127s", function, place) == 2)
                snprintf(text, sizeof(text), "%s at %s", function, place);
        pclose(pipe);
        return text;
}
