import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.security.Permission;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * One run of a command-line tool as if it had a process of its own.
 *
 * All its threads belong to this thread group, which separates its output, input, exit and shutdown
 * hooks from those of other calls. Its classes come from a loader of its own, so that no static
 * state is left for the next call.
 */
final class ToolCall extends ThreadGroup {
    /** How long threads may take to end after they are interrupted. */
    private static final long GRACE_MS = 30_000;
    /** The exit code that a shell reports after Ctrl-C. */
    private static final int INTERRUPTED = 130;
    private static final InputStream NOTHING = InputStream.nullInputStream();

    private final String className;
    private final String[] arguments;
    private final long deadline;
    private final InputStream input;
    private final ByteArrayOutputStream output = new ByteArrayOutputStream();
    private final ByteArrayOutputStream errors = new ByteArrayOutputStream();
    private final CountDownLatch ended = new CountDownLatch(1);
    private final List<Thread> hooks = new ArrayList<>();
    private Integer exitCode;
    private volatile boolean stopped;
    private boolean timedOut;

    /** Thrown where a process would have ended. An Error, so that tools let it pass. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1;

        Exited(int code) {
            super("exit " + code, null, false, false);
        }
    }

    ToolCall(JsonNode request) throws Exception {
        super("tool " + request.get("class").asText());
        className = request.get("class").asText();
        arguments = Driver.JSON.convertValue(request.get("args"), String[].class);
        input = new ByteArrayInputStream(request.get("stdin").binaryValue());
        deadline = System.nanoTime() + request.get("timeout_ms").asLong() * 1_000_000;
    }

    ObjectNode run() throws InterruptedException {
        Thread main = new Thread(this, this::callMain, "main");
        main.setContextClassLoader(new ToolClasses());
        main.start();
        timedOut = !ended.await(msLeft(), TimeUnit.MILLISECONDS);
        if (exit() == null && !stopped) {
            awaitOthers();
        }
        long graceEnd = System.nanoTime() + GRACE_MS * 1_000_000;
        for (Thread hook : startHooks()) {
            joinUntil(hook, graceEnd);
        }
        if (!stopped && !timedOut) {
            joinUntil(main, graceEnd); // it may still be in its finally blocks
        }
        return report(interruptAll(graceEnd));
    }

    /** Ends the call as Ctrl-C ends a process: after its shutdown hooks. */
    void stopTool() {
        stopped = true;
        ended.countDown();
    }

    private long msLeft() {
        return Math.max(0, (deadline - System.nanoTime()) / 1_000_000);
    }

    private void callMain() {
        try {
            ClassLoader classes = Thread.currentThread().getContextClassLoader();
            Class<?> tool = Class.forName(className, true, classes);
            tool.getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException e) {
            fail(e.getCause());
        } catch (ReflectiveOperationException e) {
            fail(e);
        } finally {
            ended.countDown();
        }
    }

    private void fail(Throwable failure) {
        if (failure instanceof Exited) {
            return;
        }
        System.err.print("Exception in thread \"main\" ");
        failure.printStackTrace();
        noteExit(1);
    }

    @Override
    public void uncaughtException(Thread thread, Throwable failure) {
        if (!(failure instanceof Exited)) {
            System.err.print("Exception in thread \"" + thread.getName() + "\" ");
            failure.printStackTrace();
        }
    }

    /** The first exit counts; later ones come from tools that catch everything. */
    private synchronized void noteExit(int code) {
        if (exitCode == null) {
            exitCode = code;
        }
        ended.countDown();
    }

    private synchronized Integer exit() {
        return exitCode;
    }

    private synchronized void addHook(String name, Runnable work) {
        hooks.add(new Thread(this, work, name));
    }

    private synchronized List<Thread> startHooks() {
        hooks.forEach(Thread::start);
        return List.copyOf(hooks);
    }

    /** A process lives as long as its last thread that is no daemon. */
    private void awaitOthers() throws InterruptedException {
        for (Thread thread : nonDaemonThreads()) {
            while (thread.isAlive() && exit() == null && !stopped && !timedOut) {
                thread.join(20);
                timedOut = msLeft() == 0;
            }
        }
    }

    /**
     * Interrupts all threads but daemons; returns the names of those that do not end.
     *
     * Daemon threads are not interrupted: the thread of an admin client that is not closed would
     * try again for ever without waiting, which costs a whole core.
     */
    private List<String> interruptAll(long graceEnd) throws InterruptedException {
        do {
            nonDaemonThreads().forEach(Thread::interrupt);
            for (Thread thread : nonDaemonThreads()) {
                thread.join(50);
            }
        } while (!nonDaemonThreads().isEmpty() && System.nanoTime() < graceEnd);
        return nonDaemonThreads().stream().map(Thread::getName).collect(Collectors.toList());
    }

    private static void joinUntil(Thread thread, long deadline) throws InterruptedException {
        thread.join(Math.max(1, (deadline - System.nanoTime()) / 1_000_000));
    }

    private List<Thread> nonDaemonThreads() {
        Thread[] found = new Thread[activeCount() + 64];
        List<Thread> all = Arrays.asList(found).subList(0, enumerate(found));
        return all.stream().filter(thread -> !thread.isDaemon()).collect(Collectors.toList());
    }

    private ObjectNode report(List<String> leaked) {
        ObjectNode report = Driver.JSON.createObjectNode();
        report.put("exit_code", stopped ? INTERRUPTED : exit() == null ? 0 : exit());
        report.put("stdout", output.toByteArray());
        report.put("stderr", errors.toByteArray());
        report.put("timed_out", timedOut);
        ArrayNode names = report.putArray("leaked");
        leaked.forEach(names::add);
        return report;
    }

    // -- streams and exit of the process, divided among the calls ------------------------------

    private static ToolCall current() {
        ThreadGroup group = Thread.currentThread().getThreadGroup();
        while (group != null && !(group instanceof ToolCall)) {
            group = group.getParent();
        }
        return (ToolCall) group;
    }

    static void takeOverStandardStreams() {
        PrintStream fallback = System.err;
        System.setOut(new Shared(fallback, false));
        System.setErr(new Shared(fallback, true));
        System.setIn(new SharedInput());
    }

    @SuppressWarnings({"removal", "deprecation"})
    static void takeOverExit() {
        Exit.setExitProcedure((code, message) -> exitCurrent(code));
        Exit.setHaltProcedure((code, message) -> exitCurrent(code));
        Exit.setShutdownHookAdder((name, work) -> {
            ToolCall call = current();
            if (call != null) {
                call.addHook(name, work);
            }
        });
        // The option parser of some tools calls System.exit itself; up to Java 23 that can be intercepted.
        try {
            System.setSecurityManager(new NoExit());
        } catch (UnsupportedOperationException e) {
            System.err.println("System.exit of a tool ends the driver on this Java");
        }
    }

    private static void exitCurrent(int code) {
        ToolCall call = current();
        if (call == null) {
            throw new IllegalStateException("exit " + code + " outside of a tool");
        }
        call.noteExit(code);
        throw new Exited(code);
    }

    @SuppressWarnings({"removal", "deprecation"})
    private static final class NoExit extends SecurityManager {
        @Override
        public void checkExit(int code) {
            if (current() != null) {
                exitCurrent(code);
            }
        }

        @Override
        public void checkPermission(Permission permission) { }

        @Override
        public void checkPermission(Permission permission, Object context) { }
    }

    /** Writes to the current call. Output after the tool's exit is lost, as in a real process. */
    private static final class Shared extends PrintStream {
        Shared(PrintStream fallback, boolean isErrors) {
            super(new OutputStream() {
                @Override
                public void write(int one) {
                    write(new byte[] {(byte) one}, 0, 1);
                }

                @Override
                public void write(byte[] bytes, int from, int count) {
                    ToolCall call = current();
                    if (call == null) {
                        fallback.write(bytes, from, count);
                    } else if (call.exit() == null || call.hooks.contains(Thread.currentThread())) {
                        (isErrors ? call.errors : call.output).write(bytes, from, count);
                    }
                }
            }, true, StandardCharsets.UTF_8);
        }

        @Override
        public void close() {
            flush();
        }
    }

    private static final class SharedInput extends InputStream {
        private static InputStream inputOfCall() {
            ToolCall call = current();
            return call == null ? NOTHING : call.input;
        }

        @Override
        public int read() throws java.io.IOException {
            return inputOfCall().read();
        }

        @Override
        public int read(byte[] bytes, int from, int count) throws java.io.IOException {
            return inputOfCall().read(bytes, from, count);
        }

        @Override
        public int available() throws java.io.IOException {
            return inputOfCall().available();
        }
    }

    /** Loads the tools' own classes again for each call; all other classes are shared. */
    private static final class ToolClasses extends ClassLoader {
        private static final List<String> OWN =
            List.of("org.apache.kafka.tools.", "org.apache.kafka.shell.", "kafka.");

        ToolClasses() {
            super(ToolCall.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (OWN.stream().noneMatch(name::startsWith)) {
                return super.loadClass(name, resolve);
            }
            synchronized (getClassLoadingLock(name)) {
                Class<?> loaded = findLoadedClass(name);
                return loaded != null ? loaded : define(name);
            }
        }

        private Class<?> define(String name) throws ClassNotFoundException {
            String file = name.replace('.', '/') + ".class";
            try (InputStream stream = getParent().getResourceAsStream(file)) {
                if (stream == null) {
                    throw new ClassNotFoundException(name);
                }
                byte[] bytes = stream.readAllBytes();
                return defineClass(name, bytes, 0, bytes.length);
            } catch (java.io.IOException e) {
                throw new ClassNotFoundException(name, e);
            }
        }
    }
}
