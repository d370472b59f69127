/**
 * Whether a command is one of those that the user allowed beforehand.
 *
 * A rule is the first words of a command. It applies only to a simple command: plain words and plainly quoted ones. A
 * shell has too many ways to say a second command behind an innocent first one (`;`, `&&`, `$(...)`, a line break, a
 * redirection, an assignment before it), so whatever is not plainly simple is asked about.
 */

/** No character of it means anything to a shell. */
const PLAIN = /[\w@%+=:,./-]+/y;
const QUOTED = /"[^"$`\\!\n]*"|'[^'\n]*'/y;
const SPACE = /[ \t]+/y;
/** Also in quotes: `test -v 'a[$(...)]'` and `printf -v` look at their words a second time. */
const SUBSTITUTION = /`|\$[({[]/;

/** Undefined when it is not simple. */
export function simpleWords(command: string): readonly string[] | undefined {
  const words: string[] = [];
  const text = command.trim();
  let at = 0;
  let word: string | undefined;
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    if (found !== undefined) at += found.length;
    return found;
  };
  while (at < text.length) {
    if (take(SPACE) !== undefined) {
      if (word !== undefined) words.push(word);
      word = undefined;
      continue;
    }
    const plain = take(PLAIN);
    const part = plain ?? take(QUOTED)?.slice(1, -1);
    if (part === undefined) return undefined;
    word = (word ?? "") + part;
  }
  if (word !== undefined) words.push(word);
  return words[0]?.includes("=") === true || words.some((each) => SUBSTITUTION.test(each))
    ? undefined
    : words;
}

export function isAllowedCommand(command: string, rules: readonly string[]): boolean {
  const words = simpleWords(command);
  if (words === undefined || words.length === 0) return false;
  return rules.some((rule) => {
    const first = simpleWords(rule);
    return first !== undefined && first.length > 0 && first.every((word, at) => words[at] === word);
  });
}
