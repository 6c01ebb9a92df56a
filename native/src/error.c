/* The words of a failure, kept per thread for qw_last_error(). */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[512] = "no error";

qw_status qw_fail(qw_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return status;
}

const char *qw_last_error(void) {
    return last_error;
}
