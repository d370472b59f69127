/**
 * Where text is cut: never between the two halves of a character. Pure.
 *
 * Half of a character has no bytes in UTF-8. It would be written as U+FFFD, and its other half, too.
 */

/** The last place up to `at` that has no first half of a character right before it. */
export function cutAt(text: string, at: number): number {
  const unit = text.charCodeAt(at - 1);
  return unit >= 0xd800 && unit <= 0xdbff ? at - 1 : at;
}
