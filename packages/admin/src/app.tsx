import { Asleep, Light } from '@carbon/icons-react';
import {
  Content,
  Header,
  HeaderGlobalAction,
  HeaderGlobalBar,
  HeaderMenuButton,
  HeaderName,
  SideNav,
  SideNavItems,
  SideNavLink,
  SkeletonText,
  SkipToContent,
} from '@carbon/react';
import { Suspense, useEffect, useState } from 'react';
import { Account, NoAccess } from './account.tsx';
import { useLiveQueries } from './api/live-queries.ts';
import { useCaller, useMay } from './api/session.ts';
import { ConnectionBanner, ConnectionStatus } from './connection-status.tsx';
import { type ConsolePage, PAGES, SECTIONS } from './pages/pages.ts';
import { Palette } from './palette.tsx';
import { usePluginPages } from './plugins/plugin-pages.tsx';
import { usePlugins } from './plugins/plugins.tsx';
import { PreloadPages } from './preload-pages.tsx';
import { ErrorBoundary } from './ui/error-boundary.tsx';
import { InertText } from './ui/inert-text.tsx';
import { PageFrame } from './ui/page-frame.tsx';
import { routeTo, useRoute } from './ui/route.ts';
import { toggleTheme, useTheme } from './ui/theme.ts';

/** The frame of the console: header, menu and the page that the address selects. */
export function App() {
  const { path } = useRoute();
  const [isMenuOpen, setMenuOpen] = useState(false);
  const theme = useTheme();
  useLiveQueries();
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page begins at its top
  useEffect(() => void scrollTo(0, 0), [path]);
  const caller = useCaller();
  const may = useMay();
  const all = [...PAGES, ...usePluginPages()];
  const canSignIn = caller?.offer.issuer !== undefined;
  const pages = all.filter(({ right }) => may(right ?? 'read'));
  const listed = pages.filter(({ needsSignIn }) => canSignIn || !needsSignIn);
  const page = pages.find(({ route }) => route === path);
  const mayRead = may('read');
  const isLoading = usePlugins().plugins.some(({ state }) => state === 'loading');
  const other = theme === 'dark' ? 'light' : 'dark';
  return (
    <>
      <Header aria-label="Sluice">
        <SkipToContent href="#content" onClick={focusContent} />
        <HeaderMenuButton
          aria-label={isMenuOpen ? 'Close menu' : 'Open menu'}
          isActive={isMenuOpen}
          onClick={() => setMenuOpen(!isMenuOpen)}
        />
        <HeaderName href={routeTo('/')} prefix="">
          Sluice
        </HeaderName>
        <HeaderGlobalBar>
          <ConnectionStatus />
          <Account />
          <HeaderGlobalAction aria-label={`Use the ${other} theme`} tooltipAlignment="end" onClick={toggleTheme}>
            {theme === 'dark' ? <Light size={20} /> : <Asleep size={20} />}
          </HeaderGlobalAction>
        </HeaderGlobalBar>
        <Menu pages={mayRead ? listed : []} current={path} isOpen={isMenuOpen} onClose={() => setMenuOpen(false)} />
      </Header>
      <Content id="content" className="console-content" tabIndex={-1}>
        {mayRead && <ConnectionBanner caller={caller} />}
        {caller && !mayRead ? (
          <NoAccess caller={caller} />
        ) : page ? (
          <ErrorBoundary key={path} title="The page could not be shown">
            <Suspense fallback={<SkeletonText heading width="20rem" />}>
              <page.Component />
              <PreloadPages />
            </Suspense>
          </ErrorBoundary>
        ) : isLoading ? (
          <SkeletonText heading width="20rem" />
        ) : all.some(({ route }) => route === path) ? (
          <PageFrame title="No access" description="Your role does not allow to open this page.">
            <a href={routeTo('/')}>Dashboard</a>
          </PageFrame>
        ) : (
          <PageFrame
            title="Page not found"
            description={<InertText text={`There is no page ${path}.`} maxLength={200} />}
          >
            <a href={routeTo('/')}>Dashboard</a>
          </PageFrame>
        )}
        <Palette pages={listed} />
      </Content>
    </>
  );
}

interface MenuProps {
  readonly pages: readonly ConsolePage[];
  readonly current: string;
  readonly isOpen: boolean;
  readonly onClose: () => void;
}

function Menu({ pages, current, isOpen, onClose }: MenuProps) {
  const visible = pages.filter(({ isHidden }) => !isHidden);
  const sorted = visible.toSorted((one, other) => one.order - other.order);
  const link = ({ route, label }: ConsolePage) => (
    // Carbon takes the links of a menu that is not expanded out of the tab order, although wide windows show it.
    <SideNavLink key={route} href={routeTo(route)} isActive={route === current} tabIndex={0} onClick={onClose}>
      {label}
    </SideNavLink>
  );
  return (
    <SideNav aria-label="Pages" expanded={isOpen} onOverlayClick={onClose}>
      <SideNavItems>
        {sorted.filter(({ section }) => section === undefined).map(link)}
        {SECTIONS.map((section) => {
          const listed = sorted.filter((page) => page.section === section);
          if (listed.length === 0) return null;
          return [
            <li key={section} className="nav-section">
              {section}
            </li>,
            ...listed.map(link),
          ];
        })}
      </SideNavItems>
    </SideNav>
  );
}

/** The hash is the route, so the link cannot lead to an anchor. */
function focusContent(event: { preventDefault(): void }): void {
  event.preventDefault();
  document.getElementById('content')?.focus();
}
