import { ComboBox, Modal } from '@carbon/react';
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { useEntries } from './api/entries.ts';
import { useForwards, useNamespaces } from './api/queries.ts';
import { type Right, useMay } from './api/session.ts';
import { useRefreshForward } from './pages/forwards/refresh-forward.ts';
import type { ConsolePage } from './pages/pages.ts';
import { comboBoxLabel } from './ui/fields.tsx';
import { visibleText } from './ui/inert-text.tsx';
import { useDialog } from './ui/modal.tsx';
import { routeTo } from './ui/route.ts';
import { toggleTheme, useTheme } from './ui/theme.ts';

/** A line of the palette: where it leads, or what it does. */
type PaletteItem = { readonly label: string; readonly right?: Right } & (
  | { readonly href: string }
  | { readonly run: () => void }
);

/** Matches to show. */
const SHOWN = 50;

/** Actions that begin with a form, and lists below a page. */
const FORMS: readonly PaletteItem[] = [
  { label: 'Create a tool', right: 'change_registry', href: routeTo('/tools', { new: 'true' }) },
  { label: 'Import tools', right: 'change_registry', href: routeTo('/tools', { import: 'true' }) },
  { label: 'Create a resource', right: 'change_registry', href: routeTo('/resources', { new: 'true' }) },
  { label: 'Create a prompt', right: 'change_registry', href: routeTo('/prompts', { new: 'true' }) },
  { label: 'Create a namespace', right: 'change_registry', href: routeTo('/namespaces', { new: 'true' }) },
  { label: 'Add a forward', right: 'change_registry', href: routeTo('/forwards', { new: 'true' }) },
  { label: 'Add a service', right: 'change_registry', href: routeTo('/services', { new: 'true' }) },
  {
    label: 'Block a principal, key or forward',
    right: 'change_registry',
    href: routeTo('/access', { new: 'true' }),
  },
  { label: 'Add an evaluator', right: 'administer', href: routeTo('/evaluators', { new: 'true' }) },
  {
    label: 'Bind a namespace to a conversation',
    right: 'administer',
    href: routeTo('/evaluators', { tab: 'bindings', bind: 'true' }),
  },
  {
    label: 'Compare or activate a revision of the evaluators',
    right: 'read_bodies',
    href: routeTo('/evaluators', { tab: 'revisions' }),
  },
];

/** Ctrl+K opens a list of every page, action, tool, forward and namespace; typing selects among them. */
export function Palette({ pages }: { readonly pages: readonly ConsolePage[] }) {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== 'k' || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      // One dialog at a time.
      if (!document.querySelector('.cds--modal.is-visible')) setOpen(true);
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  return isOpen && <PaletteDialog pages={pages} onClose={() => setOpen(false)} />;
}

interface PaletteDialogProps {
  readonly pages: readonly ConsolePage[];
  readonly onClose: () => void;
}

function PaletteDialog({ pages, onClose }: PaletteDialogProps) {
  useDialog(onClose);
  const items = useItems(pages);
  const [text, setText] = useState('');
  const words = text.toLowerCase().split(/\s+/);
  const found = items.filter(({ label }) => words.every((word) => label.toLowerCase().includes(word))).slice(0, SHOWN);
  return (
    <Modal
      open
      passiveModal
      size="sm"
      className="palette"
      aria-label="Go to"
      modalHeading="Go to"
      onRequestClose={onClose}
    >
      <ComboBox<PaletteItem>
        id="palette"
        titleText="Page, action, tool, forward or namespace"
        data-modal-primary-focus
        translateWithId={comboBoxLabel}
        items={found}
        itemToString={(item) => visibleText(item?.label ?? '')}
        onInputChange={setText}
        onChange={({ selectedItem }) => {
          if (!selectedItem) return;
          onClose();
          if ('run' in selectedItem) selectedItem.run();
          else location.hash = selectedItem.href;
        }}
      />
    </Modal>
  );
}

function useItems(pages: readonly ConsolePage[]): readonly PaletteItem[] {
  const { data: forwards = [] } = useForwards();
  const { data: namespaces = [] } = useNamespaces();
  const { data: tools } = useEntries('tools');
  const refresh = useRefreshForward();
  const queries = useQueryClient();
  const other = useTheme() === 'dark' ? 'light' : 'dark';
  const may = useMay();
  const items: readonly PaletteItem[] = [
    ...pages.map(({ label, route }) => ({ label, href: routeTo(route) })),
    ...FORMS,
    { label: `Use the ${other} theme`, run: toggleTheme },
    { label: 'Load everything again', run: () => void queries.invalidateQueries() },
    ...forwards.flatMap(({ name }) => [
      { label: `Forward ${name}`, href: routeTo('/forwards', { open: name }) },
      { label: `Refresh forward ${name}`, right: 'change_registry' as const, run: () => refresh(name) },
    ]),
    ...namespaces.map(({ name }) => ({ label: `Namespace ${name}`, href: routeTo('/namespaces', { open: name }) })),
    ...(tools?.entries ?? []).map(({ name, namespace }) => ({
      label: `Tool ${name} in ${namespace}`,
      href: routeTo('/tools', { q: name, namespace }),
    })),
  ];
  return items.filter(({ right }) => may(right ?? 'read'));
}
