/**
 * The order of keys in every store: by Unicode code point, which is the order of their UTF-8 bytes and
 * of SQLite's and PostgreSQL's binary collations. JavaScript's own `<` compares UTF-16 units and
 * differs from it above U+FFFF.
 */
export function byCodePoint(a: string, b: string): number {
  const end = Math.min(a.length, b.length);
  for (let at = 0; at < end; at++) {
    if (a.charCodeAt(at) === b.charCodeAt(at)) continue;
    // Units are equal before `at`; in the second half of a pair the code points begin one unit earlier,
    // but then the first halves are equal and the second ones decide in the same direction.
    return (a.codePointAt(at) ?? 0) - (b.codePointAt(at) ?? 0);
  }
  return a.length - b.length;
}
