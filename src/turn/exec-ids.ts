/**
 * The names of execs, unique within a stream: step, try and place of the tool call, so that a restarted step never
 * uses a name again, and the log alone tells which exec follows which.
 */
const WRITE = ".write";

export function execIdOf(step: number, attempt: number, index: number): string {
  return `${step}.${attempt}.${index}`;
}

/** The second exec of an edit. */
export function writeAfter(readId: string): string {
  return `${readId}${WRITE}`;
}

/** The exec that this one follows; undefined when it is the first of its call. */
export function precededBy(execId: string): string | undefined {
  return execId.endsWith(WRITE) ? execId.slice(0, -WRITE.length) : undefined;
}
