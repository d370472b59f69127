/**
 * The note tool as the `openai` SDK runs tools.
 */
import { NOTE, type NoteArgs, noteArgs, type Notes } from "./note-tool.ts";

export const runnableNote = (notes: Notes) => runnable((args) => notes.add(args));

/** Another way to take notes. */
export const runnable = (note: (args: NoteArgs) => string | Promise<string>) => ({
  type: "function" as const,
  function: { ...NOTE, parse: (input: string) => noteArgs.parse(JSON.parse(input)), function: note },
});
