import { Add } from '@carbon/icons-react';
import { Button, Tab, TabList, TabPanel, TabPanels, Tabs } from '@carbon/react';
import { useMay } from '../../api/session.ts';
import { Allowed } from '../../ui/allowed.tsx';
import { BlockDialog } from '../../ui/blocking.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { useParameter } from '../../ui/route.ts';
import { Blocks } from './blocks.tsx';
import { IdentitySettings } from './identity-settings.tsx';
import { Keys } from './keys.tsx';

const TABS = [
  { tab: '', label: 'Blocks', Content: Blocks },
  { tab: 'keys', label: 'Keys', right: 'read_bodies', Content: Keys },
  { tab: 'identity', label: 'Identity', right: 'read_bodies', Content: IdentitySettings },
] as const;

/** `#/access`: who is blocked, the keys of service accounts, and who may call at all. */
export default function Access() {
  const [tab, setTab] = useParameter('tab');
  const [isNew, setNew] = useParameter('new', { push: true });
  const may = useMay();
  const tabs = TABS.filter((each) => !('right' in each) || may(each.right));
  const selected = Math.max(
    0,
    tabs.findIndex((each) => each.tab === tab),
  );
  return (
    <PageFrame
      title="Access"
      description="Who may use the service: what is blocked, keys of service accounts, and the settings of identity."
      actions={
        <Allowed right="change_registry">
          <Button size="md" renderIcon={Add} onClick={() => setNew('true')}>
            Add Block
          </Button>
        </Allowed>
      }
    >
      <Tabs selectedIndex={selected} onChange={({ selectedIndex }) => setTab(tabs[selectedIndex]?.tab ?? '')}>
        <TabList aria-label="Access">
          {tabs.map(({ label }) => (
            <Tab key={label}>{label}</Tab>
          ))}
        </TabList>
        <TabPanels>
          {tabs.map(({ label, Content }, index) => (
            <TabPanel key={label}>{index === selected && <Content />}</TabPanel>
          ))}
        </TabPanels>
      </Tabs>
      {isNew !== '' && <BlockDialog onClose={() => setNew('')} />}
    </PageFrame>
  );
}
