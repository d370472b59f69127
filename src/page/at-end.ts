/**
 * Whether the end of a growing list or text is followed.
 *
 * The browser tells of a scroll later, when more may stand there than when it was scrolled: far from the end is then no sign that a person went away from it.
 * Going up is.
 */

interface Scrolled {
  readonly scrollTop: number;
  readonly scrollHeight: number;
  readonly clientHeight: number;
}

/** `before`: what it was, and where the box stood. So near to the end, in pixels, counts as there. */
export function isAtEnd(
  { scrollTop, scrollHeight, clientHeight }: Scrolled,
  before: { readonly isAtEnd: boolean; readonly top: number },
  nearPx: number,
): boolean {
  const isNear = scrollHeight - scrollTop - clientHeight < nearPx;
  return isNear || (before.isAtEnd && scrollTop >= before.top);
}
