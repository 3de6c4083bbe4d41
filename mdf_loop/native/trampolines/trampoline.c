/* Machine code of loops as operators of ONNX Runtime.

   ONNX Runtime takes operators of others from a file only. This is the file: it says of an operator
   what Python has written down in an `Operator`, and hands arrays to its machine code. It calls no
   library, so that it runs wherever the processor and the system fit (see `make trampolines`).

   Source: onnxruntime_c_api.h (OrtCustomOp, OrtApi); both are only ever appended to. */
#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define API __declspec(dllexport)
int __stdcall DllMainCRTStartup(void* library, unsigned reason, void* reserved) { return 1; }
#else
#define API __attribute__((visibility("default")))
#endif

typedef void* Status; /* null: all went well */
typedef const void* Function;
typedef const Function* Runtime; /* OrtApi, as a table of functions */

enum { /* places in the table */
  FAIL = 0, CREATE_DOMAIN = 26, ADD_OPERATOR = 27, ADD_DOMAIN = 28, DATA = 51, AXES = 61, DIMENSIONS = 62,
  SHAPE = 65, ALLOCATE = 75, FREE = 76, ALLOCATOR = 78, INPUT = 90, OUTPUT = 91, RELEASE_SHAPE = 99,
  RELEASE_DOMAIN = 101, PARALLEL = 274
};
enum { VERSION = 17, MOST_AXES = 16, MOST_SAID = 2 * MOST_AXES, MOST_PARTS = 64 };

typedef struct Operator Operator;
typedef struct Call Call;

/* How many iterations, or 0; minus which of the loop's checks has failed. Of several parts each has
   lanes of its own. */
typedef int64_t (*Loop)(int64_t trip, int64_t* extents, void* const* in, void* const* out, Call* call,
                        int64_t part, int64_t parts);

struct Operator {
  struct { /* OrtCustomOp */
    uint32_t version;
    Function create, name, provider, input_type, input_count, output_type, output_count, compute,
        destroy, input_kind, output_kind, memory, least_in, alike_in, least_out, alike_out, create_2,
        compute_2, shapes, first_version, last_version, inplace, release_inplace, alias,
        release_alias;
  } op;
  const char* name;
  Loop loop, count; /* count: how many iterations there will be, if that is to be known */
  int64_t (*shares)(int64_t trip, const int64_t* extents); /* how many parts there may be; or null */
  Runtime runtime;
  int64_t inputs, outputs, extents, late, rooms;
  const int32_t* input_types;
  const int32_t* output_types;
  const int64_t* where;  /* of each named extent: input, axis */
  const int64_t* given;  /* of each input but the first: as in `shapes` */
  const int64_t* shapes; /* of each output: how many axes, then extents; -1: as many as iterations,
                            -2 - k: the k-th named extent, behind those one that the loop computes */
  int64_t scratch;       /* bytes that the loop needs */
};

#define CALL(place, ...) \
  do { \
    Status status = ((Status(*)())runtime[place])(__VA_ARGS__); \
    if (status) return status; \
  } while (0)

/* --- what an operator says of itself ----------------------------------------------------------- */

static Status create(const Operator* op, const void* api, const void* info, const void** kernel) {
  *kernel = op;
  return 0;
}
static void destroy(void* kernel) {}
static const char* name(const Operator* op) { return op->name; }
static const char* provider(const Operator* op) { return 0; } /* the CPU's */
static int input_type(const Operator* op, size_t index) { return op->input_types[index]; }
static int output_type(const Operator* op, size_t index) { return op->output_types[index]; }
static size_t input_count(const Operator* op) { return (size_t)op->inputs; }
static size_t output_count(const Operator* op) { return (size_t)op->outputs; }
static int required(const Operator* op, size_t index) { return 0; }
static int usual_memory(const Operator* op, size_t index) { return 0; }
static int one(const Operator* op) { return 1; }

/* --- a run ------------------------------------------------------------------------------------- */

typedef struct {
  void* memory;
  int64_t bytes;
} Room;

/* What a loop may ask for while it runs, and what it says when it fails. */
struct Call {
  void* (*grow)(Call* call, int64_t room, int64_t bytes);
  void* (*give)(Call* call, int64_t output);
  Room* rooms;
  int64_t count, said[MOST_SAID]; /* numbers that belong to a failure */
  const Operator* op;
  void* context;
  int64_t iterations, *extents;
  Status status;
};

static Status extents_of(const Operator* op, void* context, int64_t* extents) {
  Runtime runtime = op->runtime;
  for (int64_t k = 0; k < op->extents; k++) {
    const void *value, *shape;
    int64_t axis = op->where[2 * k + 1], dimensions[MOST_AXES];
    dimensions[axis] = 0;
    CALL(INPUT, context, (size_t)op->where[2 * k], &value);
    CALL(SHAPE, value, &shape);
    Status status = ((Status(*)())runtime[DIMENSIONS])(shape, dimensions, (size_t)(axis + 1));
    ((void (*)())runtime[RELEASE_SHAPE])(shape);
    if (status) return status;
    extents[k] = dimensions[axis];
  }
  return 0;
}

/* One extent of a shape, as `Operator.shapes` has it. */
static int64_t extent_of(int64_t said, int64_t iterations, const int64_t* extents) {
  if (said >= 0) return said;
  return said == -1 ? iterations : extents[-2 - said];
}

/* Whether an array has the extents that are said of it; one number may have any axes. */
static int fits(const int64_t* said, int64_t axes, const int64_t* dimensions, size_t found,
                const int64_t* extents) {
  int64_t least = 1, elements = 1;
  int alike = (size_t)axes == found;
  for (int64_t k = 0; k < axes; k++) {
    int64_t extent = extent_of(said[k], 0, extents);
    least *= extent;
    alike = alike && extent == dimensions[k];
  }
  for (size_t k = 0; k < found; k++) elements *= dimensions[k];
  return alike || (least == 1 && elements == 1);
}

/* An array that has the extents that the loop will read. */
static Status input_data(const Operator* op, void* context, int64_t index, const int64_t* said,
                         int64_t axes, const int64_t* extents, void** data) {
  Runtime runtime = op->runtime;
  const void *value, *shape;
  int64_t dimensions[MOST_AXES];
  size_t found = 0;
  CALL(INPUT, context, (size_t)index, &value);
  CALL(SHAPE, value, &shape);
  Status status = ((Status(*)())runtime[AXES])(shape, &found);
  int small = found <= MOST_AXES;
  if (!status && small) status = ((Status(*)())runtime[DIMENSIONS])(shape, dimensions, found);
  ((void (*)())runtime[RELEASE_SHAPE])(shape);
  if (status) return status;
  if (!small || !fits(said, axes, dimensions, found, extents))
    return ((Status(*)())runtime[FAIL])(1, "an array has another shape than the loop was made for");
  CALL(DATA, value, data);
  return 0;
}

static Status output_data(const Operator* op, void* context, int64_t index,
                          const int64_t* dimensions, int64_t axes, void** data) {
  Runtime runtime = op->runtime;
  void* value;
  CALL(OUTPUT, context, (size_t)index, dimensions, (size_t)axes, &value);
  CALL(DATA, value, data);
  return 0;
}

/* The memory of an output whose extents are known. */
static Status shaped_data(Call* call, int64_t index, const int64_t* shape, void** data) {
  int64_t dimensions[MOST_AXES], axes = *shape++;
  for (int64_t axis = 0; axis < axes; axis++)
    dimensions[axis] = extent_of(shape[axis], call->iterations, call->extents);
  return output_data(call->op, call->context, index, dimensions, axes, data);
}

/* Whether the loop computes an extent of an output. */
static int is_late(const Operator* op, const int64_t* shape) {
  for (int64_t axes = *shape++; axes--; shape++)
    if (-2 - *shape >= op->extents) return 1;
  return 0;
}

/* The memory of such an output, when they are computed; null where there is none. */
static void* give(Call* call, int64_t output) {
  const int64_t* shape = call->op->shapes;
  void* data = 0;
  for (int64_t k = 0; k < output; k++) shape += 1 + *shape;
  if ((call->status = shaped_data(call, output, shape, &data))) return 0;
  return data ? data : call;
}

/* A room of so many bytes, with what was in it; null where there is no memory. */
static void* grow(Call* call, int64_t number, int64_t bytes) {
  Runtime runtime = call->op->runtime;
  Room* room = call->rooms + number;
  char *made, *before = room->memory;
  void* allocator;
  if (bytes >= 0 && bytes < 2 * room->bytes) bytes = 2 * room->bytes;
  if ((call->status = ((Status(*)())runtime[ALLOCATOR])(&allocator))) return 0;
  if ((call->status = ((Status(*)())runtime[ALLOCATE])(allocator, (size_t)bytes, &made))) return 0;
  for (int64_t k = 0; k < room->bytes; k++) made[k] = before[k];
  if (before) ((Status(*)())runtime[FREE])(allocator, before);
  room->memory = made;
  room->bytes = bytes;
  return made;
}

static char* in_digits(int64_t number, int64_t least, char* text) {
  char digits[20], *digit = digits;
  uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
  if (number < 0) *text++ = '-';
  for (; rest || digit - digits < least; rest /= 10) *digit++ = (char)('0' + rest % 10);
  while (digit > digits) *text++ = *--digit;
  return text;
}

/* The run fails with the number of a check as text, which Python knows the sentence of, and with
   numbers that belong to it. */
static Status failure(Call* call, int64_t number) {
  Runtime runtime = call->op->runtime;
  char text[16 + 22 * MOST_SAID], *end = text;
  const char* word = "check ";
  if (call->status) return call->status;
  while (*word) *end++ = *word++;
  end = in_digits(number, 5, end);
  for (int64_t k = 0; k < call->count; k++) {
    *end++ = ' ';
    end = in_digits(call->said[k], 1, end);
  }
  *end = 0;
  return ((Status(*)())runtime[FAIL])(1, text);
}

/* A loop in several parts, which any threads run. */
typedef struct {
  Call* call;
  void *const *in, *const *out;
  int64_t parts, failed[MOST_PARTS];
} Shared;

static int64_t part_of(Call* call, void* const* in, void* const* out, int64_t part, int64_t parts) {
  return call->op->loop(call->iterations, call->extents, in, out, call, part, parts);
}

static void share(void* given, size_t part) {
  Shared* all = given;
  Call call;
  call.op = all->call->op;
  call.iterations = all->call->iterations;
  call.extents = all->call->extents;
  call.count = 0;
  all->failed[part] = part_of(&call, all->in, all->out, (int64_t)part, all->parts) < 0;
}

/* All parts; minus the check that has failed in the first one that has failed: that one once more, for
   the numbers that belong to it. */
static int64_t all_parts(Call* call, void* const* in, void* const* out) {
  Shared all;
  all.call = call;
  all.in = in;
  all.out = out;
  all.parts = call->op->shares ? call->op->shares(call->iterations, call->extents) : 1;
  if (all.parts <= 1) return part_of(call, in, out, 0, 1);
  Runtime runtime = call->op->runtime;
  call->status = ((Status(*)())runtime[PARALLEL])(call->context, share, (size_t)all.parts, (size_t)0, &all);
  if (call->status) return -1;
  for (int64_t part = 0; part < all.parts; part++)
    if (all.failed[part]) return part_of(call, in, out, part, all.parts);
  return 0;
}

/* Behind what the loop gives: memory for pointers, extents, rooms, and the loop's own. */
static Status run(Call* call) {
  const Operator* op = call->op;
  void* context = call->context;
  Status status;
  int64_t pointers = op->inputs + op->outputs, given = op->outputs - 1;
  int64_t numbers = op->extents + op->late;
  int64_t bytes = pointers * (int64_t)sizeof(void*) + numbers * (int64_t)sizeof(int64_t) +
                  op->rooms * (int64_t)sizeof(Room) + op->scratch;
  void** in;
  if ((status = output_data(op, context, given, &bytes, 1, (void**)&in))) return status;
  void** out = in + op->inputs;
  int64_t* extents = call->extents = (int64_t*)(out + op->outputs);
  Room* rooms = (Room*)(extents + numbers);
  out[given] = rooms + op->rooms;
  for (int64_t k = 0; k < op->late; k++) extents[op->extents + k] = 0;
  for (int64_t k = 0; k < op->rooms; k++) rooms[k].memory = 0, rooms[k].bytes = 0;
  call->rooms = rooms;
  if ((status = extents_of(op, context, extents))) return status;
  if ((status = input_data(op, context, 0, 0, 0, extents, in))) return status;
  const int64_t* shape = op->given;
  for (int64_t k = 1; k < op->inputs; k++, shape += 1 + *shape)
    if ((status = input_data(op, context, k, shape + 1, *shape, extents, in + k))) return status;
  int64_t trip = *(const int64_t*)in[0], iterations = trip < 0 ? 0 : trip;
  if (op->count) iterations = op->count(trip, extents, in + 1, out, call, 0, 1);
  if (iterations < 0) return failure(call, -iterations);
  call->iterations = iterations;
  shape = op->shapes;
  for (int64_t k = 0; k < given; k++, shape += 1 + *shape) {
    if (iterations && is_late(op, shape)) continue;
    if ((status = shaped_data(call, k, shape, out + k))) return status;
  }
  int64_t failed = all_parts(call, in + 1, out);
  return failed < 0 ? failure(call, -failed) : 0;
}

static Status compute(const Operator* op, void* context) {
  Runtime runtime = op->runtime;
  Call call;
  call.grow = grow;
  call.give = give;
  call.op = op;
  call.context = context;
  call.rooms = 0;
  call.count = 0;
  call.status = 0;
  Status status = run(&call);
  for (int64_t k = 0; call.rooms && k < op->rooms; k++) {
    void* allocator;
    if (!call.rooms[k].memory) continue;
    CALL(ALLOCATOR, &allocator);
    CALL(FREE, allocator, call.rooms[k].memory);
  }
  return status;
}

/* --- registering ------------------------------------------------------------------------------- */

/* What the next call of ONNX Runtime is to register, and what it has made of it. */
API Operator* const* mdf_loop_operators = 0;
API int64_t mdf_loop_count = 0;
API const char* mdf_loop_name = 0;
API void* mdf_loop_domain = 0;
static Runtime known = 0;

static void fill(Operator* op, Runtime runtime) {
  op->runtime = runtime;
  op->op.version = VERSION;
  op->op.create_2 = (Function)create;
  op->op.compute_2 = (Function)compute;
  op->op.destroy = (Function)destroy;
  op->op.name = (Function)name;
  op->op.provider = (Function)provider;
  op->op.input_type = (Function)input_type;
  op->op.output_type = (Function)output_type;
  op->op.input_count = (Function)input_count;
  op->op.output_count = (Function)output_count;
  op->op.input_kind = op->op.output_kind = (Function)required;
  op->op.memory = (Function)usual_memory;
  op->op.least_in = op->op.least_out = op->op.alike_in = op->op.alike_out = (Function)one;
  op->op.first_version = op->op.last_version = (Function)one;
}

API Status RegisterCustomOps(void* options, const Function* base) {
  Runtime runtime = known = ((Runtime(*)(uint32_t))base[0])(VERSION);
  CALL(CREATE_DOMAIN, mdf_loop_name, &mdf_loop_domain);
  for (int64_t k = 0; k < mdf_loop_count; k++) {
    fill(mdf_loop_operators[k], runtime);
    CALL(ADD_OPERATOR, mdf_loop_domain, mdf_loop_operators[k]);
  }
  CALL(ADD_DOMAIN, options, mdf_loop_domain);
  return 0;
}

API void mdf_loop_release(void* domain) { ((void (*)())known[RELEASE_DOMAIN])(domain); }
