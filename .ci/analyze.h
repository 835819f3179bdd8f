/*
 * Given to clang's analyzer before each file of the engine: it reads one file at a time and so has
 * to be told that fail() returns false.
 */
#include "shared/status.h"

#define fail(...)		 (fail(__VA_ARGS__), false)
#define fail_prefix(...) (fail_prefix(__VA_ARGS__), false)
