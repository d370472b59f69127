/**
 * The tables of the highlighter, fetched once, when the first code is on the screen.
 */
import { useEffect, useState } from "react";
import { type Languages, languagesIn } from "./highlight.ts";
import { BASE } from "./session.ts";

let fetching: Promise<Languages> | undefined;
let fetched: Languages | undefined;

/** Undefined until they are there: code is plain so long. */
export function useLanguages(): Languages | undefined {
  const [languages, setLanguages] = useState(fetched);
  useEffect(() => {
    if (languages !== undefined) return;
    fetching ??= read();
    fetching.then(setLanguages, () => {
      // Plain code can be read as well; the next one that is shown asks again.
      fetching = undefined;
    });
  }, [languages]);
  return languages;
}

async function read(): Promise<Languages> {
  const response = await fetch(new URL("languages.json", BASE));
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  fetched = languagesIn(await response.json());
  return fetched;
}
