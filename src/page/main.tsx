/**
 * The page at `/`: signs in, and shows the conversations of this browser.
 */
import { StrictMode, useCallback, useMemo, useState } from "react";
import { createRoot } from "react-dom/client";
import { LiveConversations } from "../react/index.ts";
import { App } from "./app.tsx";
import { OWN_TOOLS } from "./own-tools.ts";
import { BASE, enter, type Entrance, forgetKey } from "./session.ts";
import { StreamLogs } from "./stream-logs.ts";
import { SignIn } from "./sign-in.tsx";

const logs = new StreamLogs();

function Page({ entrance }: { readonly entrance: Entrance }) {
  const [{ apiKey, reason }, setEntrance] = useState(entrance);
  const conversations = useMemo(
    () =>
      apiKey === undefined
        ? undefined
        : new LiveConversations({ url: BASE, apiKey, tools: OWN_TOOLS, onTraffic: logs.put }),
    [apiKey],
  );
  const signOut = useCallback(
    (why: string) => {
      forgetKey();
      void conversations?.close();
      setEntrance({ apiKey: undefined, reason: why });
    },
    [conversations],
  );
  if (apiKey === undefined || conversations === undefined)
    return <SignIn reason={reason} entered={(key) => setEntrance({ apiKey: key, reason: "" })} />;
  return <App conversations={conversations} logs={logs} apiKey={apiKey} signOut={signOut} />;
}

const entrance = await enter();
createRoot(document.getElementById("root") ?? document.body).render(
  <StrictMode>
    <Page entrance={entrance} />
  </StrictMode>,
);
