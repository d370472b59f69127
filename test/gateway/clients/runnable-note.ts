/**
 * The note tool as the `openai` SDK runs tools.
 */
import { NOTE, noteArgs, type Notes } from "./note-tool.ts";

export const runnableNote = (notes: Notes) => ({
  type: "function" as const,
  function: {
    ...NOTE,
    parse: (input: string) => noteArgs.parse(JSON.parse(input)),
    function: (args: { file: string; text: string }) => notes.add(args),
  },
});
