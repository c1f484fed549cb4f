/*
 * The robust list of life.h. The list's links are private memory, so nothing in the segment can
 * lead the kernel astray. The kernel adds one distance to the address of each entry to find its
 * futex word, so the entries lie as far apart as the words do.
 *
 * Always true: nothing else in agentd uses robust futexes, because this list replaces the C
 * library's list of the thread.
 */
#define _GNU_SOURCE
#include "agentd/life.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm/base/assert.h"
#include "shm/base/word.h"
#include "shm/layout/superblock.h"

static struct robust_list entries[2];
static struct robust_list_head head = {.list = {&head.list}};

static_assert(offsetof(struct sb_superblock, engine_life) -
                              offsetof(struct sb_superblock, supervisor_life) ==
                      sizeof(struct robust_list),
        "the entries of the list lie as far apart as the words");
static_assert(SB_LIFE_DIED == FUTEX_OWNER_DIED, "what the kernel writes");

void sb_life_hold(struct sb_superblock *super, enum sb_life_role role)
{
        struct sb_word32 *word =
                role == SB_LIFE_SUPERVISOR ? &super->supervisor_life : &super->engine_life;

        head.list.next = &entries[0];
        entries[0].next = &entries[1];
        entries[1].next = &head.list;
        head.futex_offset = (long)((char *)&super->supervisor_life - (char *)&entries[0]);
        /* The kernel marks only words that name this thread, so the other process's word may be on
         * the list as well. */
        sb_assert(!syscall(SYS_set_robust_list, &head, sizeof(head)));
        /* The word is listed before it is written, so that no death goes unseen. Relaxed: only the
         * value matters. */
        sb_store_relaxed(word, (uint32_t)gettid());
}

int sb_life_try(void)
{
        return syscall(SYS_set_robust_list, &head, sizeof(head)) < 0 ? -errno : 0;
}

void sb_life_let_go(void)
{
        head.list.next = &head.list;
}
