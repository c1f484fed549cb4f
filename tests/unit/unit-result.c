/* The texts of results (libclient/core/result.c), for every number that there is. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "libclient/statebus.h"
#include "tests/harness/test.h"

#define ERRNO_MAX 4095

static const struct {
        int number;
        const char *text;
} results[] = {
#define ROW(name, value, words) {SB_E_##name, words},
        SB_RESULTS(ROW)
#undef ROW
};
#define COUNT (sizeof(results) / sizeof(results[0]))

static void test_each_result_has_the_text_of_the_table_and_no_other_result_has_it(void)
{
        for (size_t i = 0; i < COUNT; i++) {
                CHECK(results[i].number > 0 && strlen(results[i].text) > 0);
                CHECK(strcmp(sb_strerror(results[i].number), results[i].text) == 0);
                for (size_t j = 0; j < i; j++) {
                        CHECK(results[i].number != results[j].number);
                        CHECK(strcmp(results[i].text, results[j].text) != 0);
                }
        }
}

static void test_what_sb_open_refuses_says_what_to_do(void)
{
        CHECK(strstr(sb_strerror(-ECONNREFUSED), "agentd.log"));
        CHECK(strstr(sb_strerror(-ENOTSUP), "SB_PEER"));
        CHECK(strstr(sb_strerror(-EROFS), "its log cannot be written"));
}

static void test_an_errno_has_the_text_of_the_c_library(void)
{
        for (int number = 1; number <= ERRNO_MAX; number++) {
                const char *text = strerrordesc_np(number);

                if (number == ECONNREFUSED || number == ENOTSUP || number == EROFS)
                        continue;
                CHECK(strcmp(sb_strerror(-number), text ? text : "unknown result") == 0);
        }
        CHECK(strcmp(sb_strerror(-ENOMEM), strerror(ENOMEM)) == 0);
}

static void test_success_and_unknown_numbers_have_a_text_too(void)
{
        CHECK(strcmp(sb_strerror(0), "done") == 0);
        CHECK(strcmp(sb_strerror(results[COUNT - 1].number + 1), "unknown result") == 0);
        CHECK(strcmp(sb_strerror(-ERRNO_MAX - 1), "unknown result") == 0);
        CHECK(strcmp(sb_strerror(INT32_MAX), "unknown result") == 0);
        CHECK(strcmp(sb_strerror(INT32_MIN), "unknown result") == 0);
}

int main(int argc, char **argv)
{
        test_begin(argc, argv);
        RUN(test_each_result_has_the_text_of_the_table_and_no_other_result_has_it);
        RUN(test_what_sb_open_refuses_says_what_to_do);
        RUN(test_an_errno_has_the_text_of_the_c_library);
        RUN(test_success_and_unknown_numbers_have_a_text_too);
        return test_end();
}
