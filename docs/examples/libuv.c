/* An event loop of libuv: the descriptor of a bus beside a timer. It is linked with -lstatebus
 * -luv.
 */
#include <statebus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

static void expect(int is, const char *what)
{
        if (!is) {
                fprintf(stderr, "libuv: not as expected: %s\n", what);
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

/* The descriptor can be read: take what there is, but no more than some changes for one turn, so
 * that the loop's other handles have theirs. It stays readable while there is more. */
static void on_readable(uv_poll_t *poll, int status, int events)
{
        struct sb_bus *bus = poll->data;
        struct sb_guard change = {0};
        struct sb_watch *watch;
        int r = 0, over = status < 0 || !(events & UV_READABLE);

        for (int i = 0; i < 64 && !over && r == 0 && (watch = sb_watch_ready(bus)); i++) {
                r = sb_watch_next(watch, 0, &change);
                if (r == SB_E_LAPPED || r == SB_E_TIMED_OUT) /* it goes on behind what is lost */
                        r = 0;
                else if (r == 0)
                        printf("%s: %.*s\n", (char *)sb_watch_data(watch), (int)change.value.len,
                                (const char *)change.value.data);
                over = change.bus && change.value.len == 3;
                sb_guard_release(&change);
        }
        /* sb_wait() alone says that there is nothing, and sees sb_interrupt() and agentd's end. */
        if (r == 0)
                r = sb_wait(bus, 0);
        if (!over && (r == 0 || r == SB_E_TIMED_OUT || r == -EINTR))
                return;
        /* The bus is closed behind the loop, when nothing polls its descriptor any more. */
        expect(over, sb_strerror(r));
        uv_close((uv_handle_t *)poll, NULL);
}

/* Another handle of the loop: it says three things, with a rest between them. */
static void on_timer(uv_timer_t *timer)
{
        static const char *const keys[] = {"said", "said/loudly", "said"};
        static const char *const words[] = {"hello", "still here", "bye"};
        static int count;

        expect(sb_set(timer->data, b(keys[count]), b(words[count]), NULL, NULL) == 0, "a word");
        if (++count == 3)
                uv_close((uv_handle_t *)timer, NULL);
}

static struct sb_watch *watch(struct sb_bus *bus, const char *key, uint32_t flags, char *name)
{
        struct sb_watch_options how = {
                .size = sizeof(how), .flags = flags, .after = SB_ANY_REV, .data = name};
        struct sb_watch *opened = NULL;

        expect(sb_watch_open_at(bus, b(key), &how, &opened) == 0, "a watch");
        return opened;
}

int main(void)
{
        struct sb_bus *bus = open_bus(), *other = open_bus();
        struct sb_watch *key = watch(bus, "said", 0, "said");
        struct sb_watch *prefix = watch(bus, "said/", SB_PREFIX, "below it");
        uv_poll_t poll = {.data = bus};
        uv_timer_t timer = {.data = other};
        uv_loop_t loop;
        int fd = sb_fd(bus);

        expect(fd >= 0, "a descriptor");
        expect(uv_loop_init(&loop) == 0 && uv_poll_init(&loop, &poll, fd) == 0, "a loop");
        expect(uv_poll_start(&poll, UV_READABLE, on_readable) == 0, "to poll");
        expect(uv_timer_init(&loop, &timer) == 0, "a timer");
        expect(uv_timer_start(&timer, on_timer, 10, 10) == 0, "to begin");
        expect(uv_run(&loop, UV_RUN_DEFAULT) == 0, "an end");
        expect(uv_loop_close(&loop) == 0, "nothing is left in it");
        sb_watch_close(prefix);
        sb_watch_close(key);
        sb_close(bus);
        sb_close(other);
        return 0;
}
