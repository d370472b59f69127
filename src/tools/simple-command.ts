/**
 * Whether a command is one of those that the user allowed beforehand.
 *
 * A rule is the first words of a command. It applies only to a simple command: plain words and plainly quoted ones. A
 * shell has too many ways to say a second command behind an innocent first one (`;`, `&&`, `$(...)`, a line break, a
 * redirection, an assignment before it), so whatever is not plainly simple is asked about.
 */

/** Characters that mean nothing to a shell, blanks, and plain quotes. */
const SIMPLE = /^(?:[\w@%+=:,./ \t-]|"[^"$`\\!\n]*"|'[^'\n]*')*$/;
const WORDS = /(?:[^ \t"']|"[^"]*"|'[^']*')+/g;
const QUOTED = /"([^"]*)"|'([^']*)'/g;
/** Also in quotes: `test -v 'a[$(...)]'` and `printf -v` look at their words a second time. */
const SUBSTITUTION = /`|\$[({[]/;

/** Undefined when it is not simple. */
export function simpleWords(command: string): readonly string[] | undefined {
  const text = command.trim();
  if (!SIMPLE.test(text)) return undefined;
  const words = (text.match(WORDS) ?? []).map((word) => word.replace(QUOTED, "$1$2"));
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
