import { Button, InlineNotification } from '@carbon/react';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState, useSyncExternalStore } from 'react';
import { useApi } from './api/api.ts';
import type { ConnectionState } from './api/connection.ts';
import { type Caller, signInUrl } from './api/session.ts';

function useConnection(): ConnectionState {
  const { connection } = useApi();
  return useSyncExternalStore(connection.subscribe, connection.getState);
}

/** When the service was last heard from. */
export function ConnectionStatus() {
  const { status, lastHeard } = useConnection();
  useEverySecond();
  if (lastHeard === 0) return null;
  const seconds = Math.max(0, Math.round((Date.now() - lastHeard) / 1000));
  const age = seconds < 5 ? 'just now' : `${seconds} s ago`;
  return (
    <span className="connection" title={new Date(lastHeard).toLocaleString()}>
      {status === 'connected' ? 'Updated' : 'Last response'} {age}
    </span>
  );
}

interface ConnectionBannerProps {
  readonly caller: Caller | undefined;
}

/** What to do when the service cannot be reached, or asks for a login. */
export function ConnectionBanner({ caller }: ConnectionBannerProps) {
  const { status } = useConnection();
  const queries = useQueryClient();
  useEffect(() => {
    if (status === 'login-required') void queries.invalidateQueries({ queryKey: ['session'] });
  }, [status, queries]);
  if (status === 'connected') return null;
  if (status === 'unreachable') {
    return (
      <InlineNotification
        kind="warning"
        lowContrast
        hideCloseButton
        title="The service does not respond"
        subtitle="What is shown may be out of date. The console reconnects by itself."
      />
    );
  }
  const url = caller?.hasEnded ? signInUrl(caller) : undefined;
  if (url !== undefined) {
    return (
      <div className="notice">
        <InlineNotification
          kind="warning"
          lowContrast
          hideCloseButton
          title="Your sign-in has ended"
          subtitle="What you have typed stays here. Sign in in a new tab, then continue in this one."
        />
        <Button kind="tertiary" size="sm" href={url} target="_blank" rel="noreferrer">
          Sign in
        </Button>
      </div>
    );
  }
  return (
    <div className="notice">
      <InlineNotification
        kind="warning"
        lowContrast
        hideCloseButton
        title="Your login has expired"
        subtitle="Copy what you have typed before you log in again."
      />
      <Button kind="tertiary" size="sm" onClick={() => location.reload()}>
        Log in
      </Button>
    </div>
  );
}

function useEverySecond(): void {
  const [, setTick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setTick((tick) => tick + 1), 1000);
    return () => clearInterval(timer);
  }, []);
}
