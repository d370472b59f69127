/**
 * What a planted bug must not be noticed by: a program that does not run. It breaks no rule, so no check of a rule was put to the test.
 */
const NO_PROGRAM = [ReferenceError, SyntaxError, TypeError] as const;

/** Throws when the failure, or a cause of it, is a mistake of the patch itself. */
export function checkRuns(failure: unknown): void {
  for (let cause = failure; cause instanceof Error; { cause } = cause) {
    const { message } = cause;
    if (NO_PROGRAM.some((kind) => cause instanceof kind))
      throw new Error(`the patched program does not run: ${message}`);
  }
}
