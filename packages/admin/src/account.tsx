import { Login, Logout } from '@carbon/icons-react';
import { Button, HeaderGlobalAction } from '@carbon/react';
import { unwrap } from '@sluice/contract/client';
import { useApi } from './api/api.ts';
import { type Caller, signInUrl, useCaller } from './api/session.ts';
import { InertText } from './ui/inert-text.tsx';
import { PageFrame } from './ui/page-frame.tsx';
import { useToasts } from './ui/toasts.tsx';

/** Who uses the console, in its header. */
export function Account() {
  const { client } = useApi();
  const toasts = useToasts();
  const caller = useCaller();
  if (!caller) return null;
  const url = signInUrl(caller);
  const name = nameOf(caller);
  const signOut = async (): Promise<void> => {
    try {
      await unwrap(client.POST('/api/v1/session/logout'));
      // What the page has read must not stay in memory.
      location.reload();
    } catch (error) {
      toasts.fail('You could not be signed out', error);
    }
  };
  return (
    <>
      {name !== '' && (
        <span className="account">
          <InertText text={name} maxLength={80} />
        </span>
      )}
      {caller.signIn && (
        <HeaderGlobalAction aria-label="Sign out" onClick={() => void signOut()}>
          <Logout size={20} />
        </HeaderGlobalAction>
      )}
      {name === '' && url !== undefined && (
        <HeaderGlobalAction aria-label="Sign in" onClick={() => location.assign(url)}>
          <Login size={20} />
        </HeaderGlobalAction>
      )}
    </>
  );
}

/** What the console shows in place of its pages to those who may read nothing. */
export function NoAccess({ caller }: { readonly caller: Caller }) {
  const url = signInUrl(caller);
  const name = nameOf(caller);
  if (name !== '') {
    const groups = caller.principal.groups.join(', ') || 'none';
    return (
      <PageFrame
        title="No access"
        description={
          <>
            <InertText text={name} maxLength={200} /> has no role of this service. Ask an administrator to add one of
            your groups to identity.roles.
          </>
        }
      >
        <p>
          Your groups: <InertText text={groups} maxLength={2_000} />
        </p>
      </PageFrame>
    );
  }
  const rejected =
    caller.rejected === undefined ? '' : `The service does not accept your credential: ${caller.rejected}. `;
  const advice = url === undefined ? `You cannot sign in here: ${caller.offer.reason}.` : 'Sign in to use the console.';
  return (
    <PageFrame title="Sign in" description={<InertText text={rejected + advice} maxLength={1_000} />}>
      {url !== undefined && <Button href={url}>Sign in</Button>}
    </PageFrame>
  );
}

function nameOf({ principal: { person, id } }: Caller): string {
  return person ?? id;
}
