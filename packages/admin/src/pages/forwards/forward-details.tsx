import { Tag } from '@carbon/react';
import { countLabel } from '../../api/entries.ts';
import type { Forward } from '../../api/queries.ts';
import { InertText, visibleText } from '../../ui/inert-text.tsx';
import { JsonView } from '../../ui/json-view.tsx';
import { DetailsModal } from '../../ui/modal.tsx';
import { routeTo } from '../../ui/route.ts';
import { ForwardHistory } from './forward-history.tsx';
import { ForwardTest } from './forward-test.tsx';

/** Address, state, counts and server of a forward. */
export function ForwardDetails({ forward, onClose }: { readonly forward: Forward; readonly onClose: () => void }) {
  const { name, address, namespace, statusMessage, serverInfo, prefix, headers = {}, proxy } = forward;
  return (
    <DetailsModal heading={name} label="Forward" onClose={onClose}>
      <dl className="facts">
        <dt>
          <strong>Address:</strong>
        </dt>
        <dd>
          <InertText text={address} />
        </dd>
        <dt>
          <strong>Status:</strong>
        </dt>
        <dd>
          <ForwardStatus forward={forward} />
          {statusMessage !== undefined && (
            <p>
              <InertText text={statusMessage} />
            </p>
          )}
        </dd>
        <dt>Namespace</dt>
        <dd>
          <a href={routeTo('/namespaces', { open: namespace })}>{namespace}</a>
        </dd>
        <dt>Entries</dt>
        <dd className="links">
          <a href={routeTo('/tools', { forward: name })}>{countLabel(forward.tools_discovered, 'tools')}</a>
          <a href={routeTo('/resources', { forward: name })}>{countLabel(forward.resources_discovered, 'resources')}</a>
          <a href={routeTo('/prompts', { forward: name })}>{countLabel(forward.prompts_discovered, 'prompts')}</a>
        </dd>
        {prefix !== undefined && (
          <>
            <dt>Prefix</dt>
            <dd>
              <code>{prefix}</code>
            </dd>
          </>
        )}
        {proxy !== undefined && (
          <>
            <dt>Proxy</dt>
            <dd>
              <InertText text={proxy} />
            </dd>
          </>
        )}
        {Object.keys(headers).length > 0 && (
          <>
            <dt>Headers</dt>
            <dd>
              {Object.entries(headers).map(([header, value]) => (
                <p key={header}>
                  <code>
                    {header}: {value}
                  </code>
                </p>
              ))}
            </dd>
          </>
        )}
      </dl>
      <h3 className="section-title">
        <strong>Server Info</strong>
      </h3>
      {serverInfo ? (
        <dl className="facts">
          <dt>Name</dt>
          <dd>
            <InertText text={serverInfo.serverName} />
          </dd>
          <dt>Version</dt>
          <dd>
            <InertText text={serverInfo.version} />
          </dd>
          <Fact label="Description" text={serverInfo.description} />
          <Fact label="Web site" text={serverInfo.websiteUrl} />
          <Fact label="Capabilities" text={serverInfo.capabilities.join(', ')} />
          <Fact label="Extensions" text={serverInfo.extensions.join(', ')} />
          <Fact label="Instructions" text={serverInfo.instructions} />
        </dl>
      ) : (
        <p>Not known: the server has not been discovered yet.</p>
      )}
      <h3 className="section-title">Connection</h3>
      <ForwardTest name={name} />
      <h3 className="section-title">History</h3>
      <ForwardHistory name={name} />
      <h3 className="section-title">JSON</h3>
      <JsonView label={`Forward ${name} as JSON`} value={forward} />
    </DetailsModal>
  );
}

function Fact({ label, text }: { readonly label: string; readonly text: string | undefined }) {
  if (!text) return null;
  return (
    <>
      <dt>{label}</dt>
      <dd>
        <InertText text={text} />
      </dd>
    </>
  );
}

/** State of a forward in a word. */
export function statusOf({ available }: Forward): string {
  return available ? 'Available' : 'Unavailable';
}

/** State of a forward; the title is the reason. */
export function ForwardStatus({ forward }: { readonly forward: Forward }) {
  return (
    <Tag
      type={forward.available ? 'green' : 'red'}
      size="md"
      title={visibleText(forward.statusMessage ?? statusOf(forward))}
    >
      {statusOf(forward)}
    </Tag>
  );
}
