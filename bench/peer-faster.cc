/*
 * The contender "faster": FASTER (Chandramouli et al., SIGMOD 2018; github.com/microsoft/FASTER,
 * its C++ library). It is built where its sources are given: `meson configure build
 * -Dfaster=FOLDER`, where FOLDER is the sources' `cc`. Its hybrid log is all in memory and all
 * mutable, so that sets happen in place: that is FASTER at its fastest.
 *
 * FASTER is a library for threads of one process. Here its threads are processes. All that they
 * share (log, index, epochs, sessions) comes from one shared mapping, with the same kind of pages
 * as the other contenders', which is filled before the workers are forked. What FASTER allocates
 * elsewhere changes after that in one process alone.
 *
 * FASTER leaves it to its user how to read and write a value of more than one word. As in FASTER's
 * own tests, a generation does it: a writer takes the generation by compare-and-swap; a reader
 * checks it before and after it reads in place.
 *
 * Always true: nothing is allocated while workers run, because no key is added or removed.
 */
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <new>
#include <thread>

extern "C" {
#include "bench/bench.h"
}
#include "shm/base/hash.h"

static unsigned char *arena;
static uint64_t arena_size, arena_used;

static void *shared_alloc(size_t alignment, size_t size)
{
        uint64_t at = (arena_used + alignment - 1) / alignment * alignment;

        if (size > arena_size || at > arena_size - size)
                throw std::bad_alloc();
        arena_used = at + size;
        return arena + at;
}

#define aligned_alloc shared_alloc
#include <src/core/faster.h>
#include <src/device/null_disk.h>
#undef aligned_alloc

namespace core = FASTER::core;

namespace
{

constexpr uint64_t LOG_PAGE = uint64_t{1} << core::Address::kOffsetBits;
constexpr double MUTABLE = 0.9;
/* Space for the pages of overflow buckets, 64 MiB each, for locks and for epochs. */
constexpr uint64_t OTHER = UINT64_C(208) << 20;

class Key
{
      public:
        explicit Key(const bench_key &key) : key_(key)
        {
        }
        uint32_t size() const
        {
                return sizeof(*this);
        }
        core::KeyHash GetHash() const
        {
                return core::KeyHash{sb_hash_key(key_.bytes, key_.len, BENCH_SEED)};
        }
        bool operator==(const Key &other) const
        {
                return bench_key_equal(key_.bytes, &other.key_);
        }
        bool operator!=(const Key &other) const
        {
                return !(*this == other);
        }

      private:
        bench_key key_;
};

struct Value {
        std::atomic<uint32_t> generation; /* odd: being written */
        uint32_t len;

        uint32_t size() const
        {
                return sizeof(*this) + len;
        }
        unsigned char *bytes()
        {
                return reinterpret_cast<unsigned char *>(this + 1);
        }
        const unsigned char *bytes() const
        {
                return reinterpret_cast<const unsigned char *>(this + 1);
        }
};

class Context : public core::IAsyncContext
{
      public:
        typedef Key key_t;
        typedef Value value_t;

        explicit Context(const bench_key &key) : key_(key)
        {
        }
        const Key &key() const
        {
                return key_;
        }

      private:
        Key key_;
};

class Read : public Context
{
      public:
        explicit Read(const bench_key &key) : Context(key)
        {
        }
        void Get(const Value &value)
        {
                sum = bench_consume(value.bytes(), value.len);
        }
        void GetAtomic(const Value &value)
        {
                uint32_t before;

                do {
                        before = value.generation.load(std::memory_order_acquire);
                        Get(value);
                        std::atomic_thread_fence(std::memory_order_acquire);
                } while (before & 1 || value.generation.load(std::memory_order_relaxed) != before);
        }

        uint64_t sum = 0;

      protected:
        core::Status DeepCopy_Internal(core::IAsyncContext *&copy)
        {
                return core::IAsyncContext::DeepCopy_Internal(*this, copy);
        }
};

class Write : public Context
{
      public:
        Write(const bench_key &key, const unsigned char *bytes, uint32_t len)
            : Context(key), bytes_(bytes), len_(len)
        {
        }
        uint32_t value_size() const
        {
                return sizeof(Value) + len_;
        }
        void Put(Value &value)
        {
                value.generation.store(0, std::memory_order_relaxed);
                value.len = len_;
                memcpy(value.bytes(), bytes_, len_);
        }
        bool PutAtomic(Value &value)
        {
                uint32_t before = value.generation.load(std::memory_order_relaxed) & ~1u;

                while (!value.generation.compare_exchange_weak(
                        before, before + 1, std::memory_order_acquire))
                        before &= ~1u;
                memcpy(value.bytes(), bytes_, len_);
                value.generation.store(before + 2, std::memory_order_release);
                return true;
        }

      protected:
        core::Status DeepCopy_Internal(core::IAsyncContext *&copy)
        {
                return core::IAsyncContext::DeepCopy_Internal(*this, copy);
        }

      private:
        const unsigned char *bytes_;
        uint32_t len_;
};

typedef core::FasterKv<Key, Value, FASTER::device::NullDisk> Store;

/* Nothing is ever on a disk, so no operation ever has to wait for one. */
void on_pending(core::IAsyncContext *, core::Status)
{
        abort();
}

bool set_one(Store *store, const bench_key &key, const unsigned char *bytes, uint32_t len)
{
        Write write{key, bytes, len};

        return store->Upsert(write, on_pending, 1) == core::Status::Ok;
}

bool get_one(Store *store, const bench_key &key, uint64_t *sum)
{
        Read read{key};
        bool found = store->Read(read, on_pending, 1) == core::Status::Ok;

        *sum += read.sum;
        return found;
}

void fill(Store *store, const bench_shape *shape, int *ret_result)
{
        unsigned char bytes[1024];
        bench_key key;

        store->StartSession();
        for (uint32_t i = 0; i < shape->key_count; i++) {
                bench_key_write(i, &key);
                memset(bytes, static_cast<int>(i) & 0xff, shape->value_len);
                if (!set_one(store, key, bytes, shape->value_len))
                        *ret_result = -EIO;
                if (i % BENCH_BATCH == 0)
                        store->Refresh();
        }
        store->StopSession();
}

/* Two keys a bucket, as the authors of FASTER measure it. */
int faster_create(const bench_shape *shape, void **ret_store)
{
        uint64_t record = sizeof(Value) + shape->value_len + sizeof(Key) + sizeof(core::RecordInfo);
        uint64_t log =
                static_cast<uint64_t>(
                        static_cast<double>(shape->key_count * record) / MUTABLE / LOG_PAGE + 8) *
                LOG_PAGE;
        uint64_t buckets = 64;
        int result = 0;

        while (buckets * 2 < shape->key_count)
                buckets *= 2;
        arena_used = 0;
        arena_size = log + buckets * 64 + OTHER;
        arena = static_cast<unsigned char *>(bench_memory_map(arena_size, shape->pages));
        if (!arena)
                return -ENOMEM;
        try {
                void *at = ::shared_alloc(alignof(Store), sizeof(Store));
                Store *store =
                        new (at) Store{buckets, log, "", MUTABLE, core::DEFAULT_READ_CACHE_CONFIG,
                                core::DEFAULT_HLOG_COMPACTION_CONFIG, true};

                /* A session belongs to its thread; workers, which are forked later, begin their
                 * own. */
                std::thread{fill, store, shape, &result}.join();
                *ret_store = store;
        } catch (const std::exception &) {
                result = -ENOMEM;
        }
        if (result)
                bench_memory_unmap(arena, arena_size);
        return result;
}

/* FASTER numbers the threads of a process. So that no two workers have the same number, worker
 * @index first starts and ends as many other threads. */
int faster_attach(void *opaque, uint32_t index, void **ret_handle)
{
        Store *store = static_cast<Store *>(opaque);

        while (index--)
                std::thread{[] { bench_use(core::Thread::id()); }}.join();
        store->StartSession();
        *ret_handle = store;
        return 0;
}

uint32_t faster_run(void *handle, const bench_batch *batch)
{
        Store *store = static_cast<Store *>(handle);
        uint64_t sum = 0;
        uint32_t done = 0;

        store->Refresh();
        for (uint32_t i = 0; i < batch->count; i++)
                done += batch->op == BENCH_MIX && batch->is_write[i]
                                ? set_one(store, batch->keys[i], batch->value, batch->value_len)
                                : get_one(store, batch->keys[i], &sum);
        bench_use(sum);
        return done;
}

void faster_detach(void *handle)
{
        static_cast<Store *>(handle)->StopSession();
}

/* Do not call ~Store(): what it would free belongs to the mapping. */
void faster_destroy(void *)
{
        bench_memory_unmap(arena, arena_size);
}

} // namespace

const bench_peer bench_faster = {"faster", 1u << BENCH_GET | 1u << BENCH_GET_MANY | 1u << BENCH_MIX,
        false, faster_create, faster_attach, faster_run, faster_detach, faster_destroy, nullptr};
