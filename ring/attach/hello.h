/*
 * The attach protocol: what a client and the engine say to each other on the bus's socket, once,
 * before they share memory.
 *
 *      client                                  engine
 *        connect                        ->       check SO_PEERCRED against the rules; open a pidfd
 *        request (ATTACH, ticket)       ->       claim a record, watch the process
 *        map the descriptor             <-       answer {slot, generation, size} + memfd
 *        close                          ->       forget the connection; the record lives on
 *
 * A process that is not attached may ask for one thing: request (EVICT, which client) -> answer
 * {how many snapshots}. KILL is the same, and ends that client's process.
 *
 * The memfd comes by SCM_RIGHTS.
 *
 * Always true: one message is one packet (SOCK_SEQPACKET) of exactly one size; neither side takes a
 * descriptor from a client. A wrong message gets an answer, never an assertion: both sides treat
 * the other's bytes as hostile input. A record is given back when the client says so (GIVE_BACK),
 * when it closes with the answer unread, or when it dies. An engine that dies between claim and
 * answer leaves a record of which the client knows nothing: the client asks again with the same
 * ticket and is given the same record.
 */
#ifndef SB_HELLO_H
#define SB_HELLO_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define SB_HELLO_MAGIC    UINT64_C(0x6f6c6c6568627373) /* "ssbhello" */
#define SB_HELLO_PROTOCOL 1u
#define SB_HELLO_FEATURES 0u /* feature bits of a segment that this tree understands */

enum sb_hello_verb {
        SB_HELLO_ATTACH = 1, /* the client asks for a record and the segment */
        /* on the same connection: the client cannot use what it was given, and the engine takes it
         * back. No answer */
        SB_HELLO_GIVE_BACK = 2,
        /* the engine takes away the snapshots of the client that the ticket names, SB_HELLO_TARGET.
         * Answer: slot: how many */
        SB_HELLO_EVICT = 3,
        SB_HELLO_KILL = 4, /* the same, and the engine ends that client's process */
        /* as SB_HELLO_ATTACH, for agentctl: one more record is kept for it, so that it comes in
         * where all others are in use */
        SB_HELLO_ATTACH_OPERATOR = 5,
};
/* Which client: {pid or 0: any : 32, number of the client : 32}. */
#define SB_HELLO_TARGET(pid, slot) ((uint64_t)(pid) << 32 | (uint32_t)(slot))

/* The first three fields of both messages stay where they are in every protocol version. */
struct sb_hello_request {
        uint64_t magic;
        uint32_t protocol;
        uint32_t verb;           /* enum sb_hello_verb */
        uint32_t layout_version; /* the one that the client can read */
        uint32_t features;       /* those that the client understands */
        uint32_t access;         /* enum sb_access: the most that the client wants */
        uint32_t zero;
        uint64_t ticket; /* never 0. Random, it names this attempt to attach; or SB_HELLO_TARGET */
};
static_assert(sizeof(struct sb_hello_request) == 40, "request");

struct sb_hello_answer {
        uint64_t magic;
        uint32_t protocol;
        int32_t result; /* 0, +SB_E_*, -errno; the other fields count for 0 only */
        uint32_t layout_version;
        uint32_t features;
        uint32_t access;     /* granted */
        uint32_t slot;       /* the client's record; or how many snapshots were taken away */
        uint32_t generation; /* of that record */
        uint32_t zero;
        uint64_t size; /* bytes of the segment */
        uint64_t id[2];
};
static_assert(sizeof(struct sb_hello_answer) == 64, "answer");

/* Writes a whole request. */
void sb_hello_ask(uint32_t verb, uint32_t access, uint64_t ticket, struct sb_hello_request *ret);

/**
 * sb_hello_judge() - looks at a packet that claims to be a request
 * @packet:     the bytes, of any alignment
 * @len:        how many bytes came; more than a request's size means that the packet was longer
 * @features:   feature bits of the segment that is served
 * @ret:        the request, written only if it is well-formed
 *
 * Return: 0; -EPROTO (not a request); -EPROTONOSUPPORT (another protocol or layout version, or a
 * feature the client does not know); -EINVAL (a field that cannot be).
 */
int sb_hello_judge(const void *packet, size_t len, uint32_t features, struct sb_hello_request *ret);

/* Writes a whole answer with @result and nothing else in it. */
void sb_hello_refuse(int result, struct sb_hello_answer *ret);

/* Looks at a packet that claims to be an answer. Return: 0 (see ret->result); -EPROTO;
 * -EPROTONOSUPPORT. */
int sb_hello_hear(const void *packet, size_t len, struct sb_hello_answer *ret);

#endif
