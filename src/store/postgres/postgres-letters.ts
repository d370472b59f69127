/**
 * Letters between nodes in PostgreSQL, and the hints by which nodes wake each other.
 */
import type { StreamName } from "../../core/stream-state.ts";
import type { Letters } from "../letters.ts";
import type { StreamPlace } from "./acts.ts";
import type { Bell } from "./bell.ts";
import { hintOf } from "./bell-payload.ts";
import { type GroupWriter, statement } from "./group-writer.ts";
import { discardLetters, letterIn, postLetter, readLetters } from "./letter-sql.ts";
import type { Readers } from "./readers.ts";
import { assertName, assertText } from "./stream-rows.ts";

interface LettersParts {
  readonly writer: GroupWriter;
  readonly readers: Pick<Readers, "ask">;
  /** Undefined where nodes only poll. */
  readonly bell: Pick<Bell, "listen"> | undefined;
  /** Where a stream is that this process has met. */
  readonly placeOf: (name: StreamName) => StreamPlace | undefined;
}

export function postgresLetters({ writer, readers, bell, placeOf }: LettersParts): Letters {
  return {
    async post(letter) {
      assertName(letter.name);
      assertText(letter.to, "a host id");
      await statement(writer, postLetter(letter), letter.to);
    },
    async read(to, countMax) {
      writer.assertUsable();
      return (await readers.ask(readLetters(to, countMax))).map(letterIn);
    },
    async discard(numbers) {
      if (numbers.length > 0) await statement(writer, discardLetters(numbers));
    },
    listen(hear) {
      return bell?.listen((payload) => hear(hintOf(payload, placeOf))) ?? (() => undefined);
    },
  };
}
