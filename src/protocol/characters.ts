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

/** At most so much of its beginning; behind one that was cut stands the mark. */
export function firstChars(text: string, charsMax: number, mark = ""): string {
  return text.length <= charsMax ? text : text.slice(0, cutAt(text, charsMax)) + mark;
}

/** At most so much of its end; before one that was cut stands the mark. */
export function lastChars(text: string, charsMax: number, mark = ""): string {
  if (text.length <= charsMax) return text;
  const from = text.length - charsMax;
  return mark + text.slice(cutAt(text, from) < from ? from + 1 : from);
}
