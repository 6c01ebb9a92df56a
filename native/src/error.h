/* The words of a failure, kept per thread for qw_last_error(). */
#ifndef QW_ERROR_H
#define QW_ERROR_H

#include "qwarm.h"

/* Remember the sentence and return status, so that a check is one line: return qw_fail(QW_ERR_MODEL, "..."). */
qw_status qw_fail(qw_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
