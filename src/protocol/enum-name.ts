/** The name that a table gives to a number of the wire or of a file; undefined for a number that it does not have. */
export function enumName<Name extends string>(
  table: Readonly<Record<Name, number>>,
  value: number,
): Name | undefined {
  for (const name in table) if (table[name] === value) return name;
  return undefined;
}
