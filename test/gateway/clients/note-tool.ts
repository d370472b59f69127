/**
 * A tool with an effect that can be counted: each run adds a line to a file.
 */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";

export const noteArgs = z.object({ file: z.string(), text: z.string() });
export type NoteArgs = z.infer<typeof noteArgs>;

export const NOTE = {
  name: "note",
  description: "adds a line to a file",
  parameters: {
    type: "object",
    properties: { file: { type: "string" }, text: { type: "string" } },
    required: ["file", "text"],
  },
};

export class Notes {
  readonly #workspace: string;

  constructor(workspace: string) {
    this.#workspace = workspace;
  }

  add({ file, text }: NoteArgs): string {
    appendFileSync(join(this.#workspace, file), `${text}\n`);
    return `noted ${text}`;
  }

  /** Every line that was ever written to the file. */
  linesOf(file: string): readonly string[] {
    const path = join(this.#workspace, file);
    return existsSync(path) ? readFileSync(path, "utf8").trimEnd().split("\n") : [];
  }
}
