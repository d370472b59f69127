/**
 * Command lines of the programs that developers run: what is wrong is said in one line, with exit code 2.
 */
import { parseArgs, type ParseArgsOptionsConfig } from "node:util";

export function parse<Options extends ParseArgsOptionsConfig>(options: Options, help: string) {
  try {
    return parseArgs({ options, allowPositionals: false }).values;
  } catch (cause) {
    return refuse(cause instanceof Error ? cause.message : String(cause), help);
  }
}

/** A whole number of at least `min`. */
export function whole(text: string, name: string, min: number, help: string): number {
  const value = Number(text);
  if (text.trim() !== "" && Number.isSafeInteger(value) && value >= min) return value;
  return refuse(`--${name} takes a whole number from ${min} on, not "${text}"`, help);
}

export function refuse(what: string, help: string): never {
  process.stderr.write(`${what}\n\n${help}\n`);
  process.exit(2);
}
