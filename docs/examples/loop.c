/* An event loop: the descriptor of a bus beside others, and all changes whenever it can be read. */
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect(int is, const char *what)
{
        if (!is) {
                fprintf(stderr, "loop: not as expected: %s\n", what);
                exit(1);
        }
}

static struct sb_bytes b(const char *text)
{
        return (struct sb_bytes){text, strlen(text)};
}

static struct sb_bus *open_bus(void)
{
        struct sb_options options = {.size = sizeof(options), .access = SB_PEER, .flags = SB_START};
        struct sb_bus *bus = NULL;

        expect(sb_open(&options, &bus) == 0, "a bus");
        return bus;
}

/* Another process, which says three things, with a rest between them. */
static void speak(void)
{
        static const char *const words[] = {"hello", "still here", "bye"};
        struct sb_bus *bus = open_bus();

        for (int i = 0; i < 3; i++, usleep(20000))
                expect(sb_set(bus, b("said"), b(words[i]), NULL, NULL) == 0, "a word");
        sb_close(bus);
        _exit(0);
}

/* The bus's descriptor can be read: take what there is. Return: 1: the last word has come. */
static int listen_to(struct sb_watch *watch)
{
        struct sb_guard change = {0};
        int r, last = 0;

        while ((r = sb_watch_next(watch, 0, &change)) == 0) {
                printf("heard: %.*s\n", (int)change.value.len, (const char *)change.value.data);
                last = change.value.len == 3;
                sb_guard_release(&change);
        }
        expect(r == SB_E_TIMED_OUT, "nothing more for now");
        return last;
}

int main(void)
{
        struct sb_bus *bus = open_bus();
        sb_auto(sb_watch_closep) struct sb_watch *watch = NULL;
        struct epoll_event event = {.events = EPOLLIN};
        int epoll = epoll_create1(EPOLL_CLOEXEC), over = 0;

        expect(sb_watch_open(bus, b("said"), 0, SB_ANY_REV, &watch) == 0, "a watch");
        expect(epoll_ctl(epoll, EPOLL_CTL_ADD, sb_fd(bus), &event) == 0, "a descriptor");
        expect(sb_fd_kind(bus) != SB_FD_NONE, "an io_uring or a thread waits");
        if (fork() == 0)
                speak();
        while (!over)
                if (epoll_wait(epoll, &event, 1, -1) == 1)
                        over = listen_to(watch);
        wait(NULL);
        sb_close(bus);
        return 0;
}
