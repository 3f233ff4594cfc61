import { CodeSnippet, Tab, TabList, TabPanel, TabPanels, Tabs } from '@carbon/react';
import { useApi } from '../../api/api.ts';
import { type Namespace, useForwards } from '../../api/queries.ts';
import { copyText } from '../../ui/json-view.tsx';
import { DetailsModal } from '../../ui/modal.tsx';
import { routeTo } from '../../ui/route.ts';
import { AgentView } from './agent-view.tsx';

/** Default ports of the management listener and of its authenticating proxy, with those of the MCP listener. */
const PORTS: Readonly<Record<string, string>> = { 8080: '8081', 4181: '4180' };

/** Returns the URL of a namespace's MCP endpoint: the likely one, unless SERVICE_PUBLIC_URL says how clients reach the other port. */
export function mcpUrl(base: string, { name, mcpUrl: published }: Namespace): string {
  if (published !== undefined) return published;
  const url = new URL(base);
  url.port = PORTS[url.port] ?? url.port;
  return `${url.origin}/${name}/mcp`;
}

/** Address, contents and configurations of MCP clients for a namespace. */
export function NamespaceDetails({
  namespace,
  onClose,
}: {
  readonly namespace: Namespace;
  readonly onClose: () => void;
}) {
  const { name } = namespace;
  const { base } = useApi();
  const { data: forwards } = useForwards();
  const url = mcpUrl(base, namespace);
  const within = forwards?.filter((forward) => forward.namespace === name) ?? [];
  return (
    <DetailsModal heading={name} label="Namespace" onClose={onClose}>
      <dl className="facts">
        <dt>Address</dt>
        <dd>
          <code>{url}</code>
        </dd>
        <dt>Contents</dt>
        <dd className="links">
          <a href={routeTo('/tools', { namespace: name })}>Tools</a>
          <a href={routeTo('/resources', { namespace: name })}>Resources</a>
          <a href={routeTo('/prompts', { namespace: name })}>Prompts</a>
        </dd>
        <dt>Forwards</dt>
        <dd className="links">
          {within.length === 0
            ? 'None'
            : within.map((forward) => (
                <a key={forward.name} href={routeTo('/forwards', { open: forward.name })}>
                  {forward.name}
                </a>
              ))}
        </dd>
      </dl>
      <h3 className="section-title">View as an agent</h3>
      <AgentView namespace={name} />
      <h3 className="section-title">Connect a client</h3>
      <ClientConfiguration name={name} url={url} />
    </DetailsModal>
  );
}

const CLIENTS = ['Claude Code', 'Claude', 'Cursor', 'VS Code', 'mcp-remote'] as const;
type McpClient = (typeof CLIENTS)[number];

function ClientConfiguration({ name, url }: { readonly name: string; readonly url: string }) {
  return (
    <>
      <Tabs>
        <TabList aria-label="Clients">
          {CLIENTS.map((client) => (
            <Tab key={client}>{client}</Tab>
          ))}
        </TabList>
        <TabPanels>
          {CLIENTS.map((client) => {
            const text = configurationOf(client, name, url);
            return (
              <TabPanel key={client}>
                <CodeSnippet type="multi" align="left" wrapText feedback="Copied" onClick={() => void copyText(text)}>
                  {text}
                </CodeSnippet>
              </TabPanel>
            );
          })}
        </TabPanels>
      </Tabs>
      <p>
        Change host and port if clients reach the MCP listener at another address. Behind an authenticating proxy, add
        the header <code>Authorization</code>.
      </p>
    </>
  );
}

/** Returns what a client needs in its configuration; `sluice configure` writes the same. */
function configurationOf(client: McpClient, name: string, url: string): string {
  const server = `sluice-${name}`;
  const isLocal = /^(?:https:|http:\/\/(?:localhost|127\.0\.0\.1)[:/])/.test(url);
  const remote = ['-y', 'mcp-remote', url, ...(isLocal ? [] : ['--allow-http'])];
  switch (client) {
    case 'Claude Code':
      return `claude mcp add --transport http ${server} ${url}`;
    case 'Claude':
      return json({ mcpServers: { [server]: { command: 'npx', args: remote } } });
    case 'Cursor':
      return json({ mcpServers: { [server]: { url } } });
    case 'VS Code':
      return json({ servers: { [server]: { type: 'http', url } } });
    case 'mcp-remote':
      return `npx ${remote.join(' ')}`;
  }
}

function json(value: object): string {
  return JSON.stringify(value, null, 2);
}
