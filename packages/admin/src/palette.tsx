import { ComboBox, Modal } from '@carbon/react';
import { useEffect, useState } from 'react';
import { useEntries } from './api/entries.ts';
import { useForwards, useNamespaces } from './api/queries.ts';
import { PAGES } from './pages/pages.ts';
import { visibleText } from './ui/inert-text.tsx';
import { routeTo } from './ui/route.ts';

/** Where a line of the palette leads. */
interface Destination {
  readonly label: string;
  readonly href: string;
}

/** Matches to show. */
const SHOWN = 50;

/** Ctrl+K opens a list of every page, tool, forward and namespace; typing selects among them. */
export function Palette() {
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
  return isOpen && <PaletteDialog onClose={() => setOpen(false)} />;
}

function PaletteDialog({ onClose }: { readonly onClose: () => void }) {
  const { data: forwards = [] } = useForwards();
  const { data: namespaces = [] } = useNamespaces();
  const { data: tools } = useEntries('tools');
  const [text, setText] = useState('');
  const all: Destination[] = [
    ...PAGES.map(({ label, route }) => ({ label, href: routeTo(route) })),
    ...forwards.map(({ name }) => ({ label: `Forward ${name}`, href: routeTo('/forwards', { open: name }) })),
    ...namespaces.map(({ name }) => ({ label: `Namespace ${name}`, href: routeTo('/namespaces', { open: name }) })),
    ...(tools?.entries ?? []).map(({ name, namespace }) => ({
      label: `Tool ${name} in ${namespace}`,
      href: routeTo('/tools', { q: name, namespace }),
    })),
  ];
  const wanted = text.trim().toLowerCase();
  const found = all.filter(({ label }) => label.toLowerCase().includes(wanted)).slice(0, SHOWN);
  return (
    <Modal open passiveModal size="sm" modalHeading="Go to" onRequestClose={onClose}>
      <ComboBox<Destination>
        id="palette"
        titleText="Page, tool, forward or namespace"
        data-modal-primary-focus
        items={found}
        itemToString={(item) => visibleText(item?.label ?? '')}
        onInputChange={setText}
        onChange={({ selectedItem }) => {
          if (!selectedItem) return;
          onClose();
          location.hash = selectedItem.href;
        }}
      />
    </Modal>
  );
}
