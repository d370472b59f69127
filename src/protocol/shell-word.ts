/** One word for a shell, so that a printed command can be pasted, whatever a path holds. POSIX shells and PowerShell read it alike. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./~-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
