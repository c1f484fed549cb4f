/*
 * The files of a log in memory: changed as an input says, and put into a directory for the reader.
 *
 * Changes come as a list. Each is a byte that says which change and of which file, two bytes that
 * say where, and what else it takes; what an input does not have counts as zeros.
 *
 *      0 a bit pattern is laid over a byte     offset, pattern
 *      1 a byte                                offset, byte
 *      2 a word of 64 bits                     offset, 8 bytes
 *      3 zeros in a sector of 512 bytes        offset
 *      4 the file ends there                   offset
 *      5 the file is not there                 (offset)
 *      6 a block stands elsewhere, too         offset, file and block that it is a copy of
 *      7 two files have changed places         (offset), the other file
 *
 * Always true: nothing that an input says is outside of the image.
 */
#ifndef SB_TESTS_LOG_IMAGE_H
#define SB_TESTS_LOG_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/fuzz/fuzz.h"

#define LOG_FILES_MAX 12u
#define LOG_FILE_MAX  (64u << 10)

struct log_file {
        bool there;
        uint32_t size;
        unsigned char bytes[LOG_FILE_MAX];
};

/* The file at i has the number i + 1. */
struct log_image {
        struct log_file files[LOG_FILES_MAX];
};

void log_image_copy(struct log_image *to, const struct log_image *from);
/* The log in a directory, which has no more files, and no larger ones, than an image. */
void log_image_read(int directory_fd, struct log_image *ret);
/* Have the log in the directory, of which *stored is what this call put there before, be @image. */
void log_image_store(int directory_fd, const struct log_image *image, struct log_image *stored);
void log_image_edit(struct log_image *image, struct fuzz_input *edits);
/* Make right the checksums of all headers and frames that look like some. */
void log_image_mend(struct log_image *image);
/* The bytes of all files. */
uint64_t log_image_bytes(const struct log_image *image);

#endif
