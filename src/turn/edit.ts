/**
 * Exact replacement in a text: what the `edit` tool does between its read and its write.
 *
 * All edits apply, one after the other, or none does. A text that is not there or is there more than once is an
 * error that says what to do: guessing which one was meant would change the wrong place.
 */
export interface Edit {
  readonly oldText: string;
  readonly newText: string;
  /** Every occurrence instead of the only one. */
  readonly all: boolean;
}

export type Edited =
  | { readonly kind: "edited"; readonly text: string; readonly replacements: number }
  | { readonly kind: "failed"; readonly why: string };

export function applyEdits(text: string, edits: readonly Edit[]): Edited {
  let current = text;
  let replacements = 0;
  for (const [at, { oldText, newText, all }] of edits.entries()) {
    const which = edits.length === 1 ? "" : `edit ${at + 1} of ${edits.length}: `;
    if (oldText === "") return failed(`${which}old_text is empty; to make a new file use write`);
    if (oldText === newText) return failed(`${which}old_text and new_text are the same`);
    const count = occurrences(current, oldText);
    if (count === 0) return failed(`${which}${missing(current, oldText)}`);
    // They may overlap: two closing lines are there twice among three.
    const isUnique = current.indexOf(oldText) === current.lastIndexOf(oldText);
    if (!isUnique && !all) {
      return failed(
        `${which}old_text is there ${Math.max(2, count)} times; give more of the lines around it, or set replace_all`,
      );
    }
    // Not `replace`: in a replacement text "$&" and the like must stand for themselves.
    current = current.split(oldText).join(newText);
    replacements += count;
  }
  if (current === text) return failed("the edits undo each other: nothing would change");
  return { kind: "edited", text: current, replacements };
}

function failed(why: string): Edited {
  return { kind: "failed", why: `nothing was changed: ${why}` };
}

function occurrences(text: string, part: string): number {
  let count = 0;
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + part.length)) count++;
  return count;
}

function missing(text: string, oldText: string): string {
  const isNearly = squeezed(text).includes(squeezed(oldText));
  const hint = isNearly ? "; it is there with other spaces or line ends" : "";
  return `old_text is not in the file${hint}; read the file again and copy it exactly`;
}

function squeezed(text: string): string {
  return text.replace(/\s+/gu, " ").trim();
}
